package docs

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// These types are version 2.0.0 of the schema of Security Insights, as far as this project uses it
// (https://github.com/ossf/security-insights/blob/v2.0.0/schema.cue). A field without omitempty is required.
type insights struct {
	Header struct {
		SchemaVersion string `json:"schema-version"`
		LastUpdated   date   `json:"last-updated"`
		LastReviewed  date   `json:"last-reviewed"`
		URL           url    `json:"url"`
	} `json:"header"`
	Project struct {
		Name           string    `json:"name"`
		Homepage       url       `json:"homepage,omitempty"`
		Roadmap        url       `json:"roadmap,omitempty"`
		Administrators []contact `json:"administrators"`
		Repositories   []struct {
			Name    string `json:"name"`
			Comment string `json:"comment"`
			URL     url    `json:"url"`
		} `json:"repositories"`
		VulnerabilityReporting struct {
			ReportsAccepted    *bool    `json:"reports-accepted"`
			BugBountyAvailable *bool    `json:"bug-bounty-available"`
			SecurityPolicy     url      `json:"security-policy,omitempty"`
			Comment            string   `json:"comment,omitempty"`
			InScope            []string `json:"in-scope,omitempty"`
			OutOfScope         []string `json:"out-of-scope,omitempty"`
		} `json:"vulnerability-reporting"`
		Documentation struct {
			DetailedGuide         url `json:"detailed-guide,omitempty"`
			CodeOfConduct         url `json:"code-of-conduct,omitempty"`
			QuickstartGuide       url `json:"quickstart-guide,omitempty"`
			ReleaseProcess        url `json:"release-process,omitempty"`
			SupportPolicy         url `json:"support-policy,omitempty"`
			SignatureVerification url `json:"signature-verification,omitempty"`
		} `json:"documentation"`
	} `json:"project"`
	Repository struct {
		URL                           url       `json:"url"`
		Status                        string    `json:"status"`
		AcceptsChangeRequest          *bool     `json:"accepts-change-request"`
		AcceptsAutomatedChangeRequest *bool     `json:"accepts-automated-change-request"`
		CoreTeam                      []contact `json:"core-team"`
		License                       struct {
			URL        url    `json:"url"`
			Expression string `json:"expression"`
		} `json:"license"`
		Security struct {
			Assessments struct {
				Self struct {
					Comment  string `json:"comment"`
					Name     string `json:"name,omitempty"`
					Evidence url    `json:"evidence,omitempty"`
					Date     date   `json:"date,omitempty"`
				} `json:"self"`
			} `json:"assessments"`
			Tools []tool `json:"tools,omitempty"`
		} `json:"security"`
		Documentation struct {
			ContributingGuide url `json:"contributing-guide,omitempty"`
			ReviewPolicy      url `json:"review-policy,omitempty"`
			SecurityPolicy    url `json:"security-policy,omitempty"`
		} `json:"documentation"`
		Release struct {
			AutomatedPipeline  *bool `json:"automated-pipeline"`
			DistributionPoints []struct {
				URI     string `json:"uri"`
				Comment string `json:"comment"`
			} `json:"distribution-points"`
			Changelog    url `json:"changelog,omitempty"`
			Attestations []struct {
				Name         string `json:"name"`
				Location     url    `json:"location"`
				PredicateURI string `json:"predicate-uri"`
			} `json:"attestations,omitempty"`
		} `json:"release"`
	} `json:"repository"`
}

type contact struct {
	Name    string `json:"name"`
	Primary *bool  `json:"primary"`
	Social  string `json:"social,omitempty"`
}

type tool struct {
	Name        string   `json:"name"`
	Type        string   `json:"type"`
	Comment     string   `json:"comment,omitempty"`
	Rulesets    []string `json:"rulesets"`
	Integration struct {
		Adhoc   *bool `json:"adhoc"`
		CI      *bool `json:"ci"`
		Release *bool `json:"release"`
	} `json:"integration"`
	Results *struct{} `json:"results"`
}

type (
	url  string
	date string
)

// insightsProblems returns what is missing in a value of these types, or not of its form. exists reports whether a file
// of this repository exists, with a heading if it is not empty.
func insightsProblems(at string, v reflect.Value, exists func(file, heading string) bool) (all []string) {
	switch v.Kind() {
	case reflect.Pointer:
		return nil
	case reflect.Slice:
		for i := range v.Len() {
			all = append(all, insightsProblems(fmt.Sprintf("%s[%d]", at, i), v.Index(i), exists)...)
		}
		return all
	case reflect.String:
		text := v.String()
		here := regexp.MustCompile(`^https://(?:github\.com/node-drainer/node-drainer/blob|raw\.githubusercontent\.com/node-drainer/node-drainer)` +
			`/main/([^#]+)#?(.*)$`).FindStringSubmatch(text)
		switch {
		case v.Type() == reflect.TypeFor[date]() && !regexp.MustCompile(`^\d{4}-\d\d-\d\d$`).MatchString(text):
			return []string{fmt.Sprintf("%s is not a date: %q", at, text)}
		case v.Type() == reflect.TypeFor[url]() && !regexp.MustCompile(`^https://\S+$`).MatchString(text):
			return []string{fmt.Sprintf("%s is not a URL: %q", at, text)}
		case here != nil && !exists(here[1], here[2]):
			return []string{fmt.Sprintf("%s is not there: %s", at, text)}
		}
		return nil
	}
	for i := range v.NumField() {
		name, options, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		name = strings.TrimPrefix(at+"."+name, ".")
		switch {
		case !v.Field(i).IsZero():
			all = append(all, insightsProblems(name, v.Field(i), exists)...)
		case options != "omitempty":
			all = append(all, name+" is missing")
		}
	}
	return all
}

// problemsOf parses Security Insights, and returns what is wrong with them.
func problemsOf(t *testing.T, text string) []string {
	t.Helper()
	var read insights
	if err := yaml.UnmarshalStrict([]byte(text), &read); err != nil {
		return []string{err.Error()}
	}
	root, pages := Root(t), Pages(t)
	all := insightsProblems("", reflect.ValueOf(read), func(file, heading string) bool {
		_, err := os.Stat(filepath.Join(root, file))
		return err == nil && (heading == "" || anchors(pages[file])[heading])
	})
	if read.Header.SchemaVersion != "2.0.0" {
		all = append(all, "another schema: "+read.Header.SchemaVersion)
	}
	if !slices.Contains([]string{"active", "abandoned", "concept", "inactive", "moved", "suspended", "unsupported", "WIP"}, read.Repository.Status) {
		all = append(all, "there is no status "+read.Repository.Status)
	}
	for _, tool := range read.Repository.Security.Tools {
		if !slices.Contains([]string{"fuzzing", "container", "secret", "SCA", "SAST", "other"}, tool.Type) {
			all = append(all, "there is no type of tool "+tool.Type)
		}
	}
	return all
}

// TestSecurityInsights: the file has all fields that its schema requires, and names pages and headings that exist.
func TestSecurityInsights(t *testing.T) {
	t.Parallel()
	text := read(t, filepath.Join(Root(t), ".github", "security-insights.yml"))
	for _, problem := range problemsOf(t, text) {
		t.Error(problem)
	}
	for change, want := range map[string]string{
		`last-updated: "2026=>last-updated: "26`:       "last-updated is not a date",
		"  administrators: &=>  maintainers: &":        "maintainers",
		"      primary: true\n=>":                      "primary is missing",
		"    bug-bounty-available: false\n=>":          "bug-bounty-available is missing",
		"blob/main/SECURITY.md=>blob/main/SAFETY.md":   "security-policy is not there",
		"#verify-a-release=>#verify":                   "signature-verification is not there",
		"    expression: Apache-2.0\n=>":               "expression is missing",
		"status: WIP=>status: new":                     "no status new",
		"type: SCA=>type: audit":                       "no type of tool audit",
		"        results: {}\n=>":                      "results is missing",
		"schema-version: 2.0.0=>schema-version: 1.0.0": "another schema",
	} {
		before, after, _ := strings.Cut(change, "=>")
		if !strings.Contains(text, before) {
			t.Fatalf("the file does not contain %q", before)
		}
		found := strings.Join(problemsOf(t, strings.Replace(text, before, after, 1)), "\n")
		if !strings.Contains(found, want) {
			t.Errorf("%q: found %q, want %q", change, found, want)
		}
	}
}
