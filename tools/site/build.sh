#!/usr/bin/env bash
# Builds the documentation site into FOLDER: the pages of this checkout as main, those of each tag vX.Y.Z under its name,
# and those of the newest release as latest.
#   usage: build.sh FOLDER [REPOSITORY]    the tags are those of REPOSITORY, or of this one
set -euo pipefail
out=$(mkdir -p "$1" && cd "$1" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")"
repository=${2:-$(git rev-parse --show-toplevel)}
releases=$(git -C "$repository" tag --list 'v*' --sort=-version:refname | { grep -Ex 'v[0-9]+\.[0-9]+\.[0-9]+' || true; })
newest=${releases%%$'\n'*}
versions="${newest:+latest $releases }main"
source=$(mktemp -d)
trap 'rm -rf "$source"' EXIT

# build VERSION REF FOLDER: the pages of a checkout in FOLDER, which is at REF, as VERSION of the site.
build() {
	echo "building $1"
	SITE_VERSION=$1 SITE_REF=$2 SITE_SOURCE=$3 SITE_OUT=$out SITE_VERSIONS=${versions//$'\n'/ } \
		node node_modules/vitepress/bin/vitepress.js build
}

build main main ../..
for tag in $releases; do
	mkdir "$source/$tag"
	git -C "$repository" archive "$tag" | tar -x -C "$source/$tag"
	build "$tag" "$tag" "$source/$tag"
done
if [ -n "$newest" ]; then build latest "$newest" "$source/$newest"; fi

# The first page of the site leads to the newest release.
first=${versions%% *}
cat >"$out/index.html" <<HTML
<!doctype html>
<html lang="en-US">
<title>node-drainer</title>
<link rel="icon" href="data:,">
<meta http-equiv="refresh" content="0; url=$first/">
<a href="$first/">node-drainer</a>
</html>
HTML
