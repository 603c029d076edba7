#!/usr/bin/env bash
# Prints the packages whose tests a change can make fail: those of the changed files, and those that import them. The
# change is what differs from the commit where this branch left main, and what is not committed. Two packages are always
# printed, since their tests read the files of all others. A file that belongs to no package counts as a page: test/docs
# reads these, and so does what imports it, or names a file of a folder above.
set -euo pipefail

base=$(git merge-base HEAD origin/main 2>/dev/null || git merge-base HEAD main 2>/dev/null || git rev-parse HEAD)
changed=$(git diff --name-only "$base" && git ls-files --others --exclude-standard)
readers=$(grep -rlE --include='*_test.go' '"\.\.(/|", )' deploy internal pkg test)

module=$(go list -m)
export module changed readers

go list -test -f '{{.ImportPath}} {{join .Deps " "}}' ./... | awk '
	BEGIN { module = ENVIRON["module"] }
	# The package that a file belongs to: that of the closest folder above it that is one.
	function owner(file) {
		while (sub("/[^/]*$", "", file)) if (module "/" file in packages) return module "/" file
		return ""
	}
	{ packages[$1] }
	$1 ~ /\.test$/ && NF > 1 { tests[substr($1, 1, length($1) - 5)] = $0 }
	END {
		n = split(ENVIRON["changed"], files, "\n")
		for (i = 1; i <= n; i++) {
			if (files[i] == "go.mod") all = 1
			if (name = owner(files[i])) touched[name]
			else touched[module "/test/docs"]
		}
		if (n) { run[module "/internal/arch"]; run[module "/test/docs"] }
		if (module "/test/docs" in touched) {
			r = split(ENVIRON["readers"], files, "\n")
			for (i = 1; i <= r; i++) run[owner(files[i])]
		}
		for (name in tests) {
			m = split(tests[name], deps, " ")
			for (i = 1; i <= m && !(name in run); i++) if (all || deps[i] in touched) run[name]
		}
		for (name in run) if (name in tests) print name
	}' | sort
