//go:build e2e

// Package image tests the container image: built from the Dockerfile as a release builds it, looked
// into, and run.
package image

import (
	"archive/tar"
	"bytes"
	"debug/buildinfo"
	"debug/elf"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const (
	version  = "v9.8.7"
	revision = "0123456789abcdef0123456789abcdef01234567"
	epoch    = "1700000000"
	created  = "2023-11-14T22:13:20Z"
	user     = "65532:65532"
	// What is pulled, compressed. It is twice as much if the linker must keep all methods of the libraries.
	limit = 40_000_000
)

// TestImage builds the image for both platforms, twice and from nothing but Go's caches.
func TestImage(t *testing.T) {
	b := newBuilder(t)
	push := func(name string) layout {
		b.makeImage(t, "localhost/"+name, "linux/amd64,linux/arm64")
		b.run(t, "buildah", "manifest", "push", "--all", "localhost/"+name, "oci:"+b.dir+"/"+name)
		return layout(b.dir + "/" + name)
	}
	first := push("first")
	variants := first.variants(t)
	var platforms []string
	for _, v := range variants {
		platforms = append(platforms, v.platform)
		t.Run(v.platform, func(t *testing.T) { v.inspect(t) })
	}
	if want := []string{"linux/amd64", "linux/arm64"}; !slices.Equal(platforms, want) {
		t.Errorf("the image is for %v, want %v", platforms, want)
	}
	t.Run("runs", func(t *testing.T) { b.inspectRun(t, "localhost/first") })
	t.Run("is the same when built again", func(t *testing.T) {
		if first, second := first.digest(t), push("second").digest(t); first != second {
			t.Errorf("built twice, the image is %s and then %s", first.Digest, second.Digest)
		}
	})
	t.Run("on a base of its user's", func(t *testing.T) { b.inspectBased(t) })
}

// inspect holds a variant to what is promised of it.
func (v variant) inspect(t *testing.T) {
	t.Logf("%.1f MB compressed", float64(v.size)/1e6)
	if v.size >= limit {
		t.Errorf("%d bytes are pulled, want less than %d", v.size, limit)
	}
	if got := v.config.OS + "/" + v.config.Architecture; got != v.platform {
		t.Errorf("the configuration says %s, the index %s", got, v.platform)
	}
	if v.config.Created != created {
		t.Errorf("created at %s, want %s", v.config.Created, created)
	}
	const source = "https://github.com/node-drainer/node-drainer"
	want := map[string]string{
		"title": "node-drainer", "description": "Drains Kubernetes nodes on AWS before their instances go",
		"url": source, "source": source, "licenses": "Apache-2.0",
		"version": version, "revision": revision, "created": created,
	}
	got := map[string]string{}
	for name, value := range v.config.Config.Labels {
		got[strings.TrimPrefix(name, "org.opencontainers.image.")] = value
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	v.inspectCommand(t)
	v.inspectFiles(t)
	for _, program := range []string{"agent", "handover", "trigger"} {
		v.inspectProgram(t, program)
	}
}

// inspectCommand expects that the image runs the agent alone, as its own user.
func (v variant) inspectCommand(t *testing.T) {
	if c := v.config.Config; c.User != user || !slices.Equal(c.Entrypoint, []string{"/agent"}) || c.Cmd != nil {
		t.Errorf("runs %q %q as %s, want /agent alone as %s", c.Entrypoint, c.Cmd, c.User, user)
	}
}

// inspectFiles expects nothing in the image but what has a reason to be there, and nothing that its user could write.
func (v variant) inspectFiles(t *testing.T) {
	want := []string{
		"LICENSE", "agent", "etc", "etc/ssl", "etc/ssl/certs", "etc/ssl/certs/ca-certificates.crt",
		"handover", "licenses", "trigger",
	}
	var got []string
	for name, f := range v.files {
		if !strings.HasPrefix(name, "licenses/") {
			got = append(got, name)
		}
		mode := int64(0o644)
		if f.Typeflag == tar.TypeDir || name == "agent" || name == "handover" || name == "trigger" {
			mode = 0o755
		}
		// The rest of the mode repeats the type.
		if f.Mode&0o7777 != mode || f.Uid != 0 || f.Gid != 0 {
			t.Errorf("%s has mode %o of %d:%d, want %o of root", name, f.Mode, f.Uid, f.Gid, mode)
		}
		if !f.ModTime.Equal(time.Unix(1700000000, 0)) {
			t.Errorf("%s is of %s, want the time of the commit", name, f.ModTime)
		}
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

// inspectProgram expects a static binary for the variant's platform, and the license of each module in it.
func (v variant) inspectProgram(t *testing.T, name string) {
	machine := map[string]elf.Machine{"linux/amd64": elf.EM_X86_64, "linux/arm64": elf.EM_AARCH64}[v.platform]
	binary := bytes.NewReader(v.files[name].content)
	program, err := elf.NewFile(binary)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if program.Machine != machine {
		t.Errorf("%s is for %s, want %s", name, program.Machine, machine)
	}
	for _, part := range program.Progs {
		if part.Type == elf.PT_INTERP || part.Type == elf.PT_DYNAMIC {
			t.Errorf("%s is not static: it has a %s", name, part.Type)
		}
	}
	info, err := buildinfo.Read(binary)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if len(info.Deps) == 0 {
		t.Errorf("%s says of no module that it is in it", name)
	}
	for _, module := range append(info.Deps, &debug.Module{Path: "go"}) {
		if !v.licensed(module.Path) {
			t.Errorf("the module %s is in %s without its license", module.Path, name)
		}
	}
}

// licensed says whether the license of a module, or of those of its packages that are needed, is in the image.
func (v variant) licensed(module string) bool {
	for name, f := range v.files {
		if f.Typeflag == tar.TypeReg && strings.HasPrefix(name, "licenses/"+module+"/") && len(f.content) > 0 {
			return true
		}
	}
	return false
}

// inspectRun runs both programs in the image, as the user that it names.
func (b *builder) inspectRun(t *testing.T, image string) {
	container := strings.TrimSpace(b.run(t, "buildah", "from", "--pull-never", image))
	for command, want := range map[string]string{
		"/agent --version":    "node-drainer agent " + version + "\n",
		"/handover --version": "node-drainer handover " + version + "\n",
		"/trigger --version":  "trigger version " + version + "\n",
		"/agent --help":       "QUEUE_URL",
		"/handover --help":    "PASSWORDS_IN_CLEAR",
		"/trigger --help":     "--asg",
	} {
		output := ""
		// On a busy machine buildah has lost all output of a program that ends at once.
		for tries := 0; output == "" && tries < 3; tries++ {
			output = b.run(t, "buildah", append([]string{"run", container, "--"}, strings.Fields(command)...)...)
		}
		if !strings.Contains(output, want) {
			t.Errorf("%s says %q, want %q in it", command, output, want)
		}
	}
}

// inspectBased builds the image on a base with files of its own, as distroless ones have.
func (b *builder) inspectBased(t *testing.T) {
	const passwd = "root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n"
	b.write(t, "base/etc/passwd", passwd)
	b.write(t, "base/Dockerfile", "FROM scratch\nCOPY etc /etc\nENV BASE=distroless\nCMD [\"sh\"]\n")
	b.run(t, "buildah", "build", "--tag", "localhost/base", b.dir+"/base")
	b.makeImage(t, "localhost/based", "", "--build-arg=BASE=localhost/base")
	b.run(t, "buildah", "push", "localhost/based", "oci:"+b.dir+"/based")
	based := layout(b.dir + "/based")
	v := based.variant(t, based.digest(t))
	if got := string(v.files["etc/passwd"].content); got != passwd {
		t.Errorf("/etc/passwd of the base has become %q", got)
	}
	if !slices.Contains(v.config.Config.Env, "BASE=distroless") {
		t.Errorf("the environment of the base is gone: %q", v.config.Config.Env)
	}
	v.inspectCommand(t)
	b.inspectRun(t, "localhost/based")
}
