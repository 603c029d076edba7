//go:build e2e

package image

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// builder builds images with buildah, in a storage of its own that is removed with the test's folder. No base image
// can be pulled where CI runs, so it makes stand-ins for them.
type builder struct {
	dir string // holds the storage, and whatever buildah calls temporary
}

// A program of /usr finds its libraries and its shell here; what is below is mounted while the image is built.
const standIn = `FROM scratch
COPY rootfs/ /
ENV PATH=/goroot/bin:/usr/bin GOTOOLCHAIN=local GOPATH=/go GOMODCACHE=/gomodcache GOCACHE=/gocache
RUN go version
`

// newBuilder makes the storage and, as localhost/go, a stand-in for the image that Go builds in: this machine's own
// Go and /usr, mounted. It shares Go's caches, which are what makes building twice affordable. The test is skipped
// where buildah is not installed or may not do its work; make test-e2e installs it where it can.
func newBuilder(t *testing.T) *builder {
	t.Helper()
	if _, err := exec.LookPath("buildah"); err != nil {
		t.Skipf("buildah is not here: %v", err)
	}
	b := &builder{dir: t.TempDir()}
	// What containers write, a user may find without the permission to remove it. Errors are ignored: t.TempDir
	// reports what is left.
	t.Cleanup(func() { _ = exec.Command("chmod", "-R", "u+rwX", b.dir).Run() })
	b.write(t, "storage.conf", "[storage]\ndriver = \"vfs\"\ngraphroot = \""+b.dir+"/storage\"\nrunroot = \""+b.dir+"/run\"\n")
	b.write(t, "registries.conf", "unqualified-search-registries = []\n")
	b.write(t, "go/Dockerfile", standIn)
	// Modules that the build needs and the tests do not are downloaded here, where it is known how.
	licenses := exec.CommandContext(t.Context(), "go", "tool", "-modfile=../../tools/licenses/go.mod", "-n", "go-licenses")
	if output, err := licenses.CombinedOutput(); err != nil {
		t.Fatalf("build go-licenses: %v\n%s", err, output)
	}
	b.copyCertificates(t)
	for _, name := range []string{"bin", "lib", "lib64", "sbin"} {
		if err := os.Symlink("usr/"+name, filepath.Join(b.dir, "go/rootfs", name)); err != nil {
			t.Fatal(err)
		}
	}
	flags := append([]string{"build", "--tag", "localhost/go"}, mounts(t)...)
	if output, err := b.command(t, "buildah", append(flags, b.dir+"/go")...).CombinedOutput(); err != nil {
		t.Skipf("buildah cannot build here: %v\n%s", err, output)
	}
	return b
}

// mounts are the flags that bring into a build what the stand-in for the image with Go lacks.
func mounts(t *testing.T) []string {
	t.Helper()
	output, err := exec.Command("go", "env", "GOROOT", "GOMODCACHE", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	paths := strings.Fields(string(output))
	if len(paths) != 3 {
		t.Fatalf("go env says %q", output)
	}
	return []string{
		"--volume=/usr:/usr:ro", "--volume=" + paths[0] + ":/goroot:ro",
		"--volume=" + paths[1] + ":/gomodcache", "--volume=" + paths[2] + ":/gocache",
	}
}

// copyCertificates gives the stand-in the one file of this machine that gets into the image, as it does from the
// real one.
func (b *builder) copyCertificates(t *testing.T) {
	t.Helper()
	bundle, err := os.ReadFile("/etc/ssl/certs/ca-certificates.crt")
	if err != nil {
		t.Fatal(err)
	}
	b.write(t, "go/rootfs/etc/ssl/certs/ca-certificates.crt", string(bundle))
	b.write(t, "go/rootfs/tmp/.keep", "")
}

// write writes a file of the builder's folder.
func (b *builder) write(t *testing.T, name, content string) {
	t.Helper()
	path := filepath.Join(b.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// command is a command that works on the builder's storage.
func (b *builder) command(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "MAKE") && !strings.HasPrefix(variable, "MFLAGS") {
			cmd.Env = append(cmd.Env, variable)
		}
	}
	cmd.Env = append(cmd.Env, "TMPDIR="+b.dir, "BUILDAH_ISOLATION=chroot",
		"CONTAINERS_STORAGE_CONF="+b.dir+"/storage.conf", "CONTAINERS_REGISTRIES_CONF="+b.dir+"/registries.conf")
	return cmd
}

// run runs a command of the builder, and returns what it printed.
func (b *builder) run(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := b.command(t, name, args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	output, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, output, stderr.String())
	}
	return string(output)
}

// makeImage runs make image, as the release does.
func (b *builder) makeImage(t *testing.T, name, platform string, flags ...string) {
	t.Helper()
	flags = append(flags, "--build-arg=GO_IMAGE=localhost/go", "--pull-never", "--no-cache")
	flags = append(flags, mounts(t)...)
	b.run(t, "make", "-C", "../..", "image", "CONTAINER=buildah", "IMAGE="+name, "PLATFORM="+platform,
		"VERSION="+version, "REVISION="+revision, "SOURCE_DATE_EPOCH="+epoch, "IMAGE_FLAGS="+strings.Join(flags, " "))
}
