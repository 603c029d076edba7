package cli

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// environment are the variables, by their names.
func environment(environ []string) map[string]string {
	values := map[string]string{}
	for _, v := range environ {
		name, value, _ := strings.Cut(v, "=")
		values[name] = value
	}
	return values
}

// injected are the variables that others give: Kubernetes each pod, for a Service whose name begins with
// "trigger", and GitLab a pipeline that a webhook has triggered. Sources: "Discovering services" in the
// Kubernetes documentation, "Predefined CI/CD variables reference" in GitLab's.
func injected() *regexp.Regexp {
	return regexp.MustCompile(`^` + prefix + `((.+_)?(SERVICE_HOST|SERVICE_PORT(_.+)?|PORT(_.+)?)|PAYLOAD)$`)
}

// strange are the variables that look like ours and are not: each is a mistake, that would else go unseen.
func strange(environ map[string]string, known []string) []error {
	var errs []error
	theirs := injected()
	for _, name := range slices.Sorted(maps.Keys(environ)) {
		if !strings.HasPrefix(name, prefix) || slices.Contains(known, name) || theirs.MatchString(name) {
			continue
		}
		errs = append(errs, fmt.Errorf("%s is no variable of the trigger%s", name, meant(name, known)))
	}
	return errs
}

// meant asks whether a name that is much like the wrong one was meant.
func meant(wrong string, known []string) string {
	var alike []string
	wrong = strings.TrimPrefix(wrong, prefix)
	nearest := 1 + len(wrong)/5 // further away it is another word
	for _, name := range known {
		nearest = min(nearest, distance(wrong, strings.TrimPrefix(name, prefix)))
	}
	for _, name := range known {
		ours := strings.TrimPrefix(name, prefix)
		begins := len(wrong) > 2 && (strings.HasPrefix(ours, wrong) || strings.HasPrefix(wrong, ours))
		if begins || distance(wrong, ours) == nearest {
			alike = append(alike, name)
		}
	}
	if len(alike) == 0 {
		return ": trigger --help lists them"
	}
	slices.Sort(alike)
	return ": is " + alternatives(alike) + " meant?"
}

// distance is how many letters must be put in, taken out or changed to make b of a (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			changed := diagonal
			if a[i] != b[j] {
				changed++
			}
			diagonal = row[j+1]
			row[j+1] = min(changed, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
