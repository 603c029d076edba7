#!/usr/bin/env bash
# Checks that a tag can be released: a maintainer has signed it, it names the commit that is checked out, this commit is on
# main, and CI has passed for it there. Needs git 2.34, ssh-keygen, and gh with a token that may read the runs of workflows.
set -euo pipefail

tag=${1:?name the tag, such as v0.1.0}
refuse() {
	echo "check-tag.sh: $tag $1" >&2
	exit 1
}

git fetch --quiet --force --no-tags origin "+refs/tags/$tag:refs/tags/$tag" +refs/heads/main:refs/remotes/origin/main

# The name in the tag itself, which a lightweight one does not have: signed tags can be pushed again under other names.
[ "$(git for-each-ref --format='%(tag)' "refs/tags/$tag")" = "$tag" ] || refuse "is not an annotated tag of this name"

commit=$(git rev-parse "refs/tags/$tag^{commit}")
[ "$commit" = "$(git rev-parse HEAD)" ] || refuse "names another commit than the one that is checked out"
git merge-base --is-ancestor "$commit" origin/main || refuse "is not on main"

# The keys that main has now: the commit itself may have other ones, or some that have been removed since.
keys=$(mktemp)
trap 'rm -f "$keys"' EXIT
git show origin/main:.github/allowed_signers >"$keys"
git -c gpg.ssh.allowedSignersFile="$keys" verify-tag "$tag" || refuse "is not signed with a key of .github/allowed_signers"

passed=$(gh run list --workflow ci.yml --branch main --event push --commit "$commit" --status success \
	--json databaseId --jq length)
[ "$passed" -gt 0 ] || refuse "names a commit for which CI has not passed on main"
