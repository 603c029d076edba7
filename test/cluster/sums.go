package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

const sumsHeader = `# SHA-256 sums of the released programs. A downloaded program is used only if its sum is right.
# make sums writes this file. A program of a platform that is missing here is built from Go modules.
`

// PublishedSums returns the text of sums.txt for the versions in binaries/go.mod, with the sums that dl.k8s.io and
// GitHub publish. Some programs are not released for some platforms.
func PublishedSums(ctx context.Context) (string, error) {
	b, err := newBuilder(ctx, io.Discard)
	if err != nil {
		return "", err
	}
	d := newDownloader("")
	text := strings.Builder{}
	text.WriteString(sumsHeader)
	for _, p := range programs([]string{Kubectl}) {
		for _, goos := range []string{"linux", "darwin"} {
			for _, goarch := range []string{"amd64", "arm64"} {
				url, _ := release(p, b.version(p), goos, goarch)
				sum, err := d.published(ctx, url)
				if err != nil {
					return "", fmt.Errorf("find the SHA-256 sum of %s: %w", url, err)
				}
				if sum != "" {
					fmt.Fprintf(&text, "%s  %s\n", sum, url)
				}
			}
		}
	}
	return text.String(), nil
}

// published returns the published sum of a file, or "" if there is no such file.
func (d *downloader) published(ctx context.Context, url string) (string, error) {
	if path, found := strings.CutPrefix(url, "https://github.com/"); found {
		return d.publishedOnGitHub(ctx, url, path)
	}
	var sum bytes.Buffer
	err := d.get(ctx, url+".sha256", &sum)
	if status, ok := errors.AsType[statusError](err); ok && status.code == http.StatusNotFound {
		return "", nil
	}
	return strings.TrimSpace(sum.String()), err
}

// publishedOnGitHub returns the digest of the asset of a release; see
// https://docs.github.com/en/rest/releases/releases#get-a-release-by-tag-name.
func (d *downloader) publishedOnGitHub(ctx context.Context, url, path string) (string, error) {
	repository, file, _ := strings.Cut(path, "/releases/download/")
	tag, _, _ := strings.Cut(file, "/")
	var body bytes.Buffer
	if err := d.get(ctx, "https://api.github.com/repos/"+repository+"/releases/tags/"+tag, &body); err != nil {
		return "", err
	}
	var answer struct {
		Assets []struct {
			URL    string `json:"browser_download_url"`
			Digest string `json:"digest"`
		} `json:"assets"`
	}
	if err := json.Unmarshal(body.Bytes(), &answer); err != nil {
		return "", err
	}
	for _, asset := range answer.Assets {
		if asset.URL == url {
			return strings.TrimPrefix(asset.Digest, "sha256:"), nil
		}
	}
	return "", nil
}
