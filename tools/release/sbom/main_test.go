package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestBill compares the bill of this very test, which links a library or two, with what go version -m says of it.
func TestBill(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "bill.cdx.json")
	if err := run([]string{program, file, "v9.8.7"}); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var bill struct {
		BOMFormat  string
		Metadata   struct{ Component struct{ Version string } }
		Components []struct{ Name, Version, PURL string }
	}
	if err := json.Unmarshal(content, &bill); err != nil {
		t.Fatal(err)
	}
	if got := bill.Metadata.Component.Version; got != "v9.8.7" {
		t.Errorf("the program is of version %q, want v9.8.7", got)
	}
	got := map[string]string{}
	for _, c := range bill.Components {
		got[c.Name] = c.Version
		if want := "pkg:golang/" + c.Name + "@" + c.Version; c.PURL != want {
			t.Errorf("%s is found under %q, want %q", c.Name, c.PURL, want)
		}
	}
	want := linked(t, program)
	if len(want) < 2 {
		t.Fatalf("go version says that only %v is in this test", want)
	}
	for name, version := range want {
		if got[name] != version {
			t.Errorf("%s is in the bill in version %q, want %q", name, got[name], version)
		}
	}
	if len(got) != len(want) || bill.BOMFormat != "CycloneDX" {
		t.Errorf("a %s bill of %d modules, want a CycloneDX one of %d", bill.BOMFormat, len(got), len(want))
	}
}

// linked is what go version -m says: modules, and Go.
func linked(t *testing.T, program string) map[string]string {
	t.Helper()
	output, err := exec.Command("go", "version", "-m", program).Output()
	if err != nil {
		t.Fatal(err)
	}
	modules := map[string]string{}
	for n, line := range strings.Split(string(output), "\n") {
		words := strings.Fields(line)
		switch {
		case n == 0:
			modules["std"] = words[len(words)-1]
		case len(words) > 2 && words[0] == "dep":
			modules[words[1]] = words[2]
		}
	}
	return modules
}

func TestNoProgram(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("no program"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{
		"no Go program":      {text, text + ".json", "v1"},
		"nothing":            {},
		"a file that is not": {text + "s", text + ".json", "v1"},
	} {
		if run(args) == nil {
			t.Errorf("%s is taken for a program", name)
		}
	}
}
