#!/usr/bin/env bash
# Runs trigger plan, and writes its Markdown into a comment of the pull request PULL_REQUEST: the one that it has written
# before, or a new one. action.yml sets the variables.
set -euo pipefail

[ -n "${PULL_REQUEST:-}" ] || { echo "plan.sh: this event has no pull request: run it on pull_request" >&2; exit 1; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

read -r -d '' -a arguments <<<"${ARGUMENTS:-}" || true # of several lines
code=0
"${TRIGGER:-trigger}" plan --summary-file "$folder/summary" "${arguments[@]}" 2>"$folder/errors" || code=$?
cat "$folder/errors" >&2
echo "exit-code=$code" >>"$GITHUB_OUTPUT"

export MARKER="<!-- node-drainer plan ${NAME:-} -->"
most=60000 # of the 65,536 characters that a comment may have
{
	printf '%s\n### trigger plan %s\n\n' "$MARKER" "${NAME:-}"
	if [ -s "$folder/summary" ]; then
		head -c "$most" "$folder/summary" | iconv -c -f utf-8 -t utf-8 || true
	else
		printf 'It failed with exit code %s:\n\n' "$code"
		head -c "$most" "$folder/errors" | iconv -c -f utf-8 -t utf-8 | sed 's/^/    /' || true
	fi
} >"$folder/comment"

comments="repos/$GITHUB_REPOSITORY/issues/$PULL_REQUEST/comments"
gh api --paginate "$comments" \
	--jq '.[] | select(.user.type == "Bot" and (.body | startswith(env.MARKER))) | .id' >"$folder/ids"
if id=$(head -n 1 "$folder/ids") && [ -n "$id" ]; then
	gh api --silent --method PATCH "repos/$GITHUB_REPOSITORY/issues/comments/$id" --field "body=@$folder/comment"
else
	gh api --silent --method POST "$comments" --field "body=@$folder/comment"
fi
[ "$code" = 2 ] || exit "$code"
