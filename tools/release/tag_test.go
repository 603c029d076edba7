package release

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// fixture is a clone of a repository, with its origin, and keys beside it.
type fixture struct {
	t   *testing.T
	dir string
	env []string
}

const signers = ".github/allowed_signers"

// newFixture returns a clone whose main has one commit, which allows the key of the maintainer to sign. Its gh knows that
// CI has passed for each commit that the clone names in the file passed.
func newFixture(t *testing.T) fixture {
	t.Helper()
	f := fixture{t: t, dir: t.TempDir()}
	f.env = append(os.Environ(), "PATH="+f.path("bin")+":"+os.Getenv("PATH"), "PASSED="+f.path("passed"),
		"HOME="+f.dir, "GIT_CONFIG_GLOBAL="+f.path("gitconfig"), "GIT_CONFIG_SYSTEM=/dev/null")
	f.write("../gitconfig", "[user]\nname = m\nemail = m@example.com\n[gpg]\nformat = ssh\n[init]\ndefaultBranch = main\n")
	f.write("../passed", "")
	f.write("../bin/gh", `#!/bin/sh
case "$*" in "run list --workflow ci.yml --branch main --event push --commit "*" --status success --json databaseId --jq length")
	grep -c "^${10}\$" "$PASSED" || true ;;
*) echo "gh: $*" >&2; exit 2 ;;
esac
`)
	if err := os.Chmod(f.path("bin/gh"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"maintainer", "stranger"} {
		f.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f.path(name))
	}
	f.run("git", "init", "--quiet", "--bare", f.path("origin"))
	f.run("git", "clone", "--quiet", f.path("origin"), f.path("clone"))
	f.allow("maintainer")
	f.commit("main")
	return f
}

func (f fixture) path(name string) string { return filepath.Join(f.dir, name) }

// run runs a command in the clone, which must succeed.
func (f fixture) run(command ...string) string {
	f.t.Helper()
	output, err := f.try(command...)
	if err != nil {
		f.t.Fatalf("%q: %v\n%s", command, err, output)
	}
	return strings.TrimSpace(output)
}

func (f fixture) try(command ...string) (string, error) {
	f.t.Helper()
	cmd := exec.CommandContext(f.t.Context(), command[0], command[1:]...)
	cmd.Env = f.env
	if _, err := os.Stat(f.path("clone")); err == nil {
		cmd.Dir = f.path("clone")
	}
	output, err := cmd.CombinedOutput()
	return string(output), err
}

// write writes a file of the clone.
func (f fixture) write(name, text string) {
	f.t.Helper()
	file := filepath.Join(f.path("clone"), name)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

// allow has the next commit allow these keys, and no others, to sign.
func (f fixture) allow(names ...string) {
	f.t.Helper()
	text := "# Comments are allowed.\n"
	for _, name := range names {
		key, err := os.ReadFile(f.path(name + ".pub"))
		if err != nil {
			f.t.Fatal(err)
		}
		text += name + "@example.com namespaces=\"git\" " + string(key)
	}
	f.write(signers, text)
}

// commit pushes a commit to a branch of the origin, and has CI pass for it.
func (f fixture) commit(branch string) string {
	f.t.Helper()
	f.run("git", "add", "--all")
	f.run("git", "commit", "--quiet", "--allow-empty", "--message", "change")
	f.run("git", "push", "--quiet", "origin", "HEAD:refs/heads/"+branch)
	commit := f.run("git", "rev-parse", "HEAD")
	f.write("../passed", commit+"\n")
	return commit
}

// sign pushes a tag of the commit that is checked out, signed with a key.
func (f fixture) sign(tag, key string) {
	f.t.Helper()
	f.run("git", "-c", "user.signingKey="+f.path(key), "tag", "--sign", "--message", tag, tag)
	f.run("git", "push", "--quiet", "origin", tag)
}

// TestCheckTag: a tag that a maintainer has signed on main, where CI has passed, can be released, and no other.
func TestCheckTag(t *testing.T) {
	t.Parallel()
	script, err := filepath.Abs("check-tag.sh")
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		push func(f fixture)
		want string // Why it is refused; "" if it is not.
	}{
		"signed on main": {func(f fixture) { f.sign("v1.0.0", "maintainer") }, ""},
		"signed on main, which has gone on": {func(f fixture) {
			f.sign("v1.0.0", "maintainer")
			commit := f.run("git", "rev-parse", "HEAD")
			f.commit("main")
			f.write("../passed", commit+"\n")
			f.run("git", "checkout", "--quiet", "v1.0.0")
		}, ""},
		"lightweight": {func(f fixture) {
			f.run("git", "tag", "v1.0.0")
			f.run("git", "push", "--quiet", "origin", "v1.0.0")
		}, "not an annotated tag"},
		"without a signature": {func(f fixture) {
			f.run("git", "tag", "--annotate", "--message", "v1.0.0", "v1.0.0")
			f.run("git", "push", "--quiet", "origin", "v1.0.0")
		}, "not signed"},
		"signed by somebody else": {func(f fixture) { f.sign("v1.0.0", "stranger") }, "not signed"},
		"signed with a key that main does not have any more": {func(f fixture) {
			f.allow("maintainer", "stranger")
			signed := f.commit("main")
			f.sign("v1.0.0", "stranger")
			f.allow("maintainer")
			f.commit("main")
			f.run("git", "checkout", "--quiet", signed)
		}, "not signed"},
		"a signed tag of an old version under a new name": {func(f fixture) {
			f.sign("v0.9.0", "maintainer")
			f.run("git", "push", "--quiet", "origin", "refs/tags/v0.9.0:refs/tags/v1.0.0")
		}, "not an annotated tag of this name"},
		"on a branch, with a key of its own": {func(f fixture) {
			f.allow("stranger")
			f.commit("work")
			f.sign("v1.0.0", "stranger")
		}, "not on main"},
		"on a branch": {func(f fixture) {
			f.commit("work")
			f.sign("v1.0.0", "maintainer")
		}, "not on main"},
		"moved since the checkout": {func(f fixture) {
			before := f.run("git", "rev-parse", "HEAD")
			f.commit("main")
			f.sign("v1.0.0", "maintainer")
			f.run("git", "checkout", "--quiet", before)
		}, "another commit"},
		"CI has not passed": {func(f fixture) {
			f.sign("v1.0.0", "maintainer")
			f.write("../passed", "")
		}, "CI has not passed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			tt.push(f)
			output, err := f.try(script, "v1.0.0")
			if (err == nil) != (tt.want == "") || !strings.Contains(output, tt.want) {
				t.Errorf("%v, want %q:\n%s", err, tt.want, output)
			}
		})
	}
}
