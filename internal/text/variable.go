package text

import "regexp"

// IsServiceVariable reports whether an environment variable has the form of those that Kubernetes sets in each pod for
// a Service. Source: "Discovering services" in the Kubernetes documentation.
func IsServiceVariable(name string) bool {
	return regexp.MustCompile(`^[A-Z0-9_]+_(SERVICE_HOST|(SERVICE_)?PORT(_.+)?)$`).MatchString(name)
}
