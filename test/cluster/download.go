package cluster

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"context"
	"crypto/sha256"
	_ "embed" // For the file below.
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// mirrorVariable is the URL under which the files are looked for, by host and path, instead of at their hosts.
	mirrorVariable = "KUBE_MIRROR"
	// silenceLimit is how long a server may send nothing, from the attempt to connect to it on.
	silenceLimit = 8 * time.Second
)

//go:embed sums.txt
var sumsFile string

// sums returns the SHA-256 sums of sums.txt by URL, in hexadecimal.
func sums(text string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		sum, url, found := strings.Cut(strings.TrimSpace(line), "  ")
		if found && !strings.HasPrefix(line, "#") {
			all[url] = sum
		}
	}
	return all
}

// release returns the URL of a released program, and where the program is in it if that is an archive.
func release(p program, version, goos, goarch string) (url, member string) {
	platform := goos + "-" + goarch
	switch p.name {
	case etcd:
		name, archive := fmt.Sprintf("etcd-v%s-%s", version, platform), ".tar.gz"
		if goos == "darwin" {
			archive = ".zip"
		}
		return "https://github.com/etcd-io/etcd/releases/download/v" + version + "/" + name + archive, name + "/etcd"
	case kwok:
		return "https://github.com/kubernetes-sigs/kwok/releases/download/v" + version + "/kwok-" + platform, ""
	default:
		return fmt.Sprintf("https://dl.k8s.io/release/v%s/bin/%s/%s/%s", version, goos, goarch, p.name), ""
	}
}

// download downloads the programs whose sums are known, all at the same time, and returns the others and those that it
// could not download. It reports these. The error is that of ctx.
func (b *builder) download(ctx context.Context, wanted []program) ([]program, error) {
	known := sums(sumsFile)
	files, unknown := []file{}, []program{}
	for _, p := range wanted {
		url, member := release(p, b.version(p), runtime.GOOS, runtime.GOARCH)
		if known[url] == "" {
			unknown = append(unknown, p)
			continue
		}
		files = append(files, file{program: p, url: url, member: member, sum: known[url]})
	}
	if len(unknown) > 0 {
		fmt.Fprintf(b.log, "There is no download of %s for %s/%s\n", names(unknown), runtime.GOOS, runtime.GOARCH)
	}
	if len(files) == 0 {
		return unknown, ctx.Err()
	}
	failed := b.downloadFiles(ctx, files)
	return append(unknown, failed...), ctx.Err()
}

func (b *builder) downloadFiles(ctx context.Context, files []file) (failed []program) {
	d := newDownloader(b.out)
	fmt.Fprintf(b.log, "Downloading %d programs of a Kubernetes control plane, some 300 MB. "+
		"Once only: they are kept in %s\n", len(files), b.out)
	done := b.report(ctx, func(took time.Duration) string {
		return fmt.Sprintf("still downloading: %d MB in %.0f s", d.received.Load()>>20, took.Seconds())
	})
	errs := make([]error, len(files))
	var work sync.WaitGroup
	for i, f := range files {
		work.Go(func() { errs[i] = d.fetch(ctx, f) })
	}
	work.Wait()
	took := done()
	downloaded := []program{}
	for i, f := range files {
		if errs[i] == nil {
			downloaded = append(downloaded, f.program)
		} else {
			failed = append(failed, f.program)
		}
	}
	switch {
	case ctx.Err() != nil:
		return failed
	case len(downloaded) == 0: // Most often for the same reason.
		fmt.Fprintf(b.log, "Cannot download %s: %v\n", names(failed), errs[0])
		return failed
	}
	for i, f := range files {
		if errs[i] != nil {
			fmt.Fprintf(b.log, "Cannot download %s: %v\n", f.name, errs[i])
		}
	}
	fmt.Fprintf(b.log, "Downloaded %s (%d MB) in %.0f s, with the right SHA-256 sums\n",
		names(downloaded), d.received.Load()>>20, took.Seconds())
	return failed
}

// file is a file to download.
type file struct {
	program
	url    string
	member string // See release.
	sum    string // SHA-256, in hexadecimal.
}

// downloader downloads files into a folder.
type downloader struct {
	client   *http.Client
	mirror   string
	silence  time.Duration
	dir      string
	received atomic.Int64
}

func newDownloader(dir string) *downloader {
	return &downloader{client: secureClient(), mirror: os.Getenv(mirrorVariable), silence: silenceLimit, dir: dir}
}

// secureClient follows no redirect from HTTPS to anything else.
func secureClient() *http.Client {
	return &http.Client{CheckRedirect: func(to *http.Request, via []*http.Request) error {
		const most = 10
		if from := via[len(via)-1].URL; from.Scheme != to.URL.Scheme {
			return fmt.Errorf("redirected from %s to %s", from, to.URL)
		}
		if len(via) >= most {
			return fmt.Errorf("stopped after %d redirects", most)
		}
		return nil
	}}
}

// fetch downloads a program. It gets its name, and can be executed, only after its sum was checked.
func (d *downloader) fetch(ctx context.Context, f file) (err error) {
	half, err := os.CreateTemp(d.dir, ".half-"+f.name+"-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, half.Close(), ignoreMissing(os.Remove(half.Name()))) }()
	sum := sha256.New()
	if err := d.get(ctx, f.url, io.MultiWriter(half, sum)); err != nil {
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != f.sum {
		return fmt.Errorf("%s has the SHA-256 sum %s, but test/cluster/sums.txt says %s", d.at(f.url), got, f.sum)
	}
	if f.member != "" {
		return d.extract(f, half)
	}
	return errors.Join(half.Chmod(0o755), os.Rename(half.Name(), filepath.Join(d.dir, f.name)))
}

func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// at returns where the file of a URL is downloaded from.
func (d *downloader) at(url string) string {
	if d.mirror == "" {
		return url
	}
	return strings.TrimSuffix(d.mirror, "/") + "/" + strings.TrimPrefix(url, "https://")
}

// get writes a file to out, and fails when the server sends nothing for some time.
func (d *downloader) get(ctx context.Context, url string, out io.Writer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silent := time.AfterFunc(d.silence, func() { cancel(fmt.Errorf("no answer for %v", d.silence)) })
	defer silent.Stop()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, d.at(url), nil)
	if err != nil {
		return err
	}
	response, err := d.client.Do(request)
	if err != nil && context.Cause(ctx) != nil {
		return fmt.Errorf("%s: %w", d.at(url), context.Cause(ctx))
	}
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return statusError{d.at(url), response.StatusCode}
	}
	_, err = io.Copy(out, &heard{response.Body, func(n int) {
		silent.Reset(d.silence)
		d.received.Add(int64(n))
	}})
	if err != nil && context.Cause(ctx) != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", d.at(url), err)
	}
	return nil
}

// statusError is the error of a response other than 200.
type statusError struct {
	url  string
	code int
}

func (e statusError) Error() string {
	return fmt.Sprintf("%s: %d %s", e.url, e.code, http.StatusText(e.code))
}

// heard reports how much each call reads.
type heard struct {
	io.Reader
	report func(n int)
}

func (h *heard) Read(p []byte) (int, error) {
	n, err := h.Reader.Read(p)
	h.report(n)
	return n, err
}

// extract writes the program in a verified archive to its place.
func (d *downloader) extract(f file, archive *os.File) (err error) {
	content, err := open(f, archive)
	if err != nil {
		return fmt.Errorf("read %s: %w", path.Base(f.url), err)
	}
	half, err := os.CreateTemp(d.dir, ".half-"+f.name+"-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, half.Close(), ignoreMissing(os.Remove(half.Name()))) }()
	if _, err := io.Copy(half, content); err != nil {
		return fmt.Errorf("read %s: %w", path.Base(f.url), err)
	}
	return errors.Join(half.Chmod(0o755), os.Rename(half.Name(), filepath.Join(d.dir, f.name)))
}

// open returns the program in an archive.
func open(f file, archive *os.File) (io.Reader, error) {
	if strings.HasSuffix(f.url, ".zip") {
		info, err := archive.Stat()
		if err != nil {
			return nil, err
		}
		files, err := zip.NewReader(archive, info.Size())
		if err != nil {
			return nil, err
		}
		return files.Open(f.member)
	}
	if _, err := archive.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	unzipped, err := gzip.NewReader(archive)
	if err != nil {
		return nil, err
	}
	for files := tar.NewReader(unzipped); ; {
		header, err := files.Next()
		if err != nil || header.Name == f.member {
			return files, err
		}
	}
}
