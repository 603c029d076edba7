package docs

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/node-drainer/node-drainer/deploy"
	"github.com/node-drainer/node-drainer/internal/config"
	"github.com/node-drainer/node-drainer/test/agentrules"
)

// checks are the tests of commands, by what these begin with. Most parse a command only, by the real parser of its
// program: running it would need a cluster.
func checks() map[string]string {
	return map[string]string{
		`trigger `:                       "TestDocsCommands",      // the flags
		setting + `(agent)?$`:            "TestTheSettings",       // the configuration of the agent
		`(PROBE_RUN=1 )?make `:           "TestEveryTargetExists", // the targets of the Makefile
		`helm .*node-drainer`:            "TestTheHelmCommands",   // the flags, and what the chart makes of the values
		`terraform .* output .*\| helm `: "TestTheHelmCommands",
		`kubectl `:                       "TestTheKubectlCommands", // the names of ours
		`logs( \||\(\) \{)`:              "TestTheKubectlCommands",
		`aws (autoscaling|sqs|events) `:  "TestTheAWSCommands", // runs them against the simulated AWS
		`sed -f deploy/example\.sed `:    "TestTheAWSCommands",
	}
}

// setting is one or several settings of the agent.
const setting = `([A-Z]+_[A-Z_]+=('[^']*'|\S*)\s*)+`

// isChecked reports whether a test looks at the command.
func isChecked(command string) bool {
	for beginning := range checks() {
		if regexp.MustCompile("^" + beginning).MatchString(command) {
			return true
		}
	}
	return false
}

// TestEveryCommandIsAccountedFor: each command on a page is run or parsed by a test. A block with one for which that is
// not possible says in a comment, which readers do not see, which test runs the block, or what it needs.
func TestEveryCommandIsAccountedFor(t *testing.T) {
	t.Parallel()
	tests := map[string]bool{}
	for _, pattern := range []string{"cmd/*/*_test.go", "deploy/*_test.go", "internal/*/*_test.go", "test/*/*_test.go"} {
		files, err := filepath.Glob(filepath.Join(Root(t), pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			for name := range find(read(t, file), `(?m)^func (Test\w+)\(`) {
				tests[name] = true
			}
		}
	}
	for _, test := range checks() {
		if !tests[test] {
			t.Errorf("there is no test %s", test)
		}
	}
	for page, text := range Pages(t) {
		for _, block := range Blocks(text, "sh") {
			unchecked := slices.DeleteFunc(block.Commands(), isChecked)
			test, runs := strings.CutPrefix(block.Mark, "runs in ")
			needs := regexp.MustCompile(`^needs a real (account|cluster|release)$`).MatchString(block.Mark)
			switch {
			case runs && !tests[test], block.Mark != "" && !runs && !needs:
				t.Errorf("%s: there is no such mark: %q", page, block.Mark)
			case block.Mark == "" && len(unchecked) > 0:
				t.Errorf("%s: no test looks at %q: add one, or the mark \"needs a real account\", cluster or release",
					page, unchecked)
			case needs && len(unchecked) == 0:
				t.Errorf("%s: tests look at all commands of the block, which is marked %q:\n%s", page, block.Mark, block.Text)
			}
		}
		for _, language := range []string{"", "text", "console", "bash", "shell"} {
			for _, block := range Blocks(text, language) {
				if regexp.MustCompile(`(?m)^(aws|kubectl|helm|make|trigger|terraform|docker|go) [a-z]`).MatchString(block.Text) {
					t.Errorf("%s: the language of this block is sh:\n%s", page, block.Text)
				}
			}
		}
	}
}

// TestTheKubectlCommands: what the commands for kubectl name of ours is there: reasons of Events, messages of the log,
// components, fields of the mark. kubectl itself is not run.
func TestTheKubectlCommands(t *testing.T) {
	t.Parallel()
	code := source(t, "internal/*/*.go", "pkg/*/*.go", "internal/handover/*/*.go", "charts/node-drainer/templates/*.*")
	verbs := []string{
		"annotate", "apply", "auth", "create", "describe", "events", "exec", "get", "label", "logs", "patch", "rollout", "taint",
		"uncordon",
	}
	found := 0
	for page, text := range Pages(t) {
		for _, block := range Blocks(text, "sh") {
			for _, command := range block.Commands() {
				words := strings.Fields(command)
				if words[0] == "kubectl" {
					found++
					verb := slices.IndexFunc(words, func(word string) bool { return slices.Contains(verbs, word) })
					if verb < 0 || verb > 3 {
						t.Errorf("%s: kubectl has no such command: %s", page, command)
					}
				}
				named := find(command, `\breason=(\w+)`).and(find(command, `grep (?:-E )?'?"?([a-z ,|]{7,})'?$`)).
					and(find(command, `component=(\w+)`))
				for name := range named {
					for alternative := range strings.SplitSeq(name, "|") {
						if !strings.Contains(code, alternative) {
							t.Errorf("%s: %s names %q, which is not in the code", page, command, alternative)
						}
					}
				}
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d commands were found", found)
	}
}

// TestTheLogQueries: the queries for Loki and CloudWatch Logs Insights in docs/runbook.md name fields and messages of the
// agent's log, and the agent's container.
func TestTheLogQueries(t *testing.T) {
	t.Parallel()
	facts := read(t, filepath.Join(Root(t), "internal/observe/testdata/facts.txt"))
	container := read(t, filepath.Join(Root(t), "charts/node-drainer/templates/deployment.yaml"))
	found := 0
	for _, block := range Blocks(Pages(t)["docs/runbook.md"], "text") {
		for field := range find(block.Text, `log_processed\.(\w+)`).and(find(block.Text, `\| json \| (\w+)`)) {
			if found++; !strings.Contains(facts, `"`+field+`":`) {
				t.Errorf("the log has no field %s", field)
			}
		}
		for text := range find(block.Text, "\\|= `([^`]+)`") {
			if found++; !strings.Contains(facts, text) {
				t.Errorf("the log has no %s", text)
			}
		}
		for name := range find(block.Text, `container(?:_name)? ?= ?"(\w+)"`) {
			if found++; !strings.Contains(container, "- name: "+name+"\n") {
				t.Errorf("the chart has no container %s", name)
			}
		}
	}
	if found < 9 {
		t.Errorf("only %d names were found", found)
	}
}

// TestTheTerraform: what pages and examples give the module are variables of it, with the one that is required, and
// what they take are its outputs.
func TestTheTerraform(t *testing.T) {
	t.Parallel()
	module := filepath.Join(Root(t), "deploy", "terraform")
	variables := find(read(t, filepath.Join(module, "variables.tf")), `(?m)^variable "(\w+)"`).with("source")
	outputs := find(read(t, filepath.Join(module, "outputs.tf")), `(?m)^output "(\w+)"`)
	shown := map[string]string{}
	for name, page := range Pages(t) {
		for _, block := range Blocks(page, "hcl") {
			shown[name] += block.Text
		}
	}
	for _, name := range []string{"irsa", "pod-identity"} {
		shown[name] = read(t, filepath.Join(module, "examples", name, "main.tf"))
	}
	given := regexp.MustCompile(`(?ms)^module "node_drainer" \{$(.*?)^\}$`)
	found := 0
	for name, text := range shown {
		for _, m := range given.FindAllStringSubmatch(text, -1) {
			found++
			arguments := find(m[1], `(?m)^  (\w+) +=`)
			if !arguments["cluster_name"] {
				t.Errorf("%s does not give the module cluster_name", name)
			}
			for argument := range arguments {
				if !variables[argument] {
					t.Errorf("%s gives the module %s, which it does not have", name, argument)
				}
			}
		}
		for output := range find(text, `module\.node_drainer\.(\w+)`) {
			if !outputs[output] {
				t.Errorf("%s takes the output %s, which is not there", name, output)
			}
		}
	}
	if found < 4 {
		t.Errorf("only %d modules were found", found)
	}
}

// TestTheSettings: what a reader copies from a page into the agent's environment is a configuration without
// mistakes.
func TestTheSettings(t *testing.T) {
	t.Parallel()
	one := regexp.MustCompile(`[A-Z]+_[A-Z_]+=('[^']*'|\S*)`)
	read := 0
	for name, page := range Pages(t) {
		for _, block := range Blocks(page, "sh") {
			env := []string{"POD_NAMESPACE=agents", "CLUSTER_NAME=prod", "QUEUE_URL=" + queue}
			for _, command := range block.Commands() {
				if regexp.MustCompile("^" + setting + "(agent)?$").MatchString(command) {
					for _, set := range one.FindAllString(command, -1) {
						env = append(env, strings.ReplaceAll(set, "'", ""))
					}
					read++
				}
			}
			if _, err := config.ReadAgent(env); err != nil {
				t.Errorf("%s: %q: %v", name, env, err)
			}
		}
	}
	if read < 10 {
		t.Errorf("only %d settings were found", read)
	}
}

// TestTheImageNamesItsRegistry: the make image of the README works where buildah has no registry for short names, as
// after its installation on Debian.
func TestTheImageNamesItsRegistry(t *testing.T) {
	t.Parallel()
	if !regexp.MustCompile(`(?m)^ARG GO_IMAGE=[a-z0-9-]+\.[a-z0-9.-]+/`).MatchString(read(t, filepath.Join(Root(t), "Dockerfile"))) {
		t.Error("GO_IMAGE of the Dockerfile has no registry")
	}
}

// TestTheHookNames: the hooks that pages create, complete, delete, list and let EventBridge deliver are those that the
// agent answers after the command for Helm in docs/install.md.
func TestTheHookNames(t *testing.T) {
	t.Parallel()
	pages := Pages(t)
	answered := regexp.MustCompile(`config\.hook\.names=\{([^}]+)\}`).FindStringSubmatch(pages["docs/install.md"])
	if answered == nil {
		t.Fatal("docs/install.md sets no config.hook.names")
	}
	names, found := strings.Split(answered[1], ","), 0
	// A flag of the AWS CLI, a rule's pattern, HOOK_NAMES, and a message of the agent.
	for _, pattern := range []string{
		`--lifecycle-hook-name ([\w-]+)`, `"LifecycleHookName": \[([^\]]*)\]`,
		"HOOK_NAMES(?:`\\*\\*)?(?:=| lists [^`]*`)([\\w,-]+)", `\(hook ([\w-]+) of group workers`,
	} {
		before := found
		for name, page := range pages {
			for shown := range find(page, pattern) {
				found++
				for hook := range strings.SplitSeq(shown, ",") {
					if hook = strings.Trim(hook, `" `); !slices.Contains(names, hook) {
						t.Errorf("%s has the hook %s, and the agent of docs/install.md answers %s", name, hook, answered[1])
					}
				}
			}
		}
		if found == before {
			t.Errorf("no page has %s", pattern)
		}
	}
}

// TestTheRoleOfHooks: one role sends the messages of hooks, on all pages.
func TestTheRoleOfHooks(t *testing.T) {
	t.Parallel()
	const role = "arn:aws:iam::123456789012:role/node-drainer-hooks"
	found := 0
	pages := Pages(t)
	pages["deploy/example.sed"] = "HookRoleArn=" + deploy.Example()["Senders"]
	for name, page := range pages {
		sent := find(page, `(?s)put-lifecycle-hook.*?--role-arn (\S+)`).and(find(page, `HookRoleArn=(\S+)`))
		for shown := range sent {
			if found++; shown != role {
				t.Errorf("%s has the role %s for hooks, other pages %s", name, shown, role)
			}
		}
	}
	if found < 3 {
		t.Errorf("only %d roles were found", found)
	}
}

// TestTheNamespace: what pages create and look at is in the namespace of the installation, which the roles of AWS name.
func TestTheNamespace(t *testing.T) {
	t.Parallel()
	const namespace = "kube-system"                     // The default of the Terraform module and the templates.
	others := map[string]bool{"ci": true, "shop": true} // of a trigger, and of a workload
	found := 0
	for name, page := range Pages(t) {
		for _, pattern := range []string{
			`node-drainer[^\n]*(?:--namespace|-n) ([a-z-]+)`, `(?:--namespace|-n) ([a-z-]+)[^\n]*node-drainer`,
			`namespaceSelector: [^\n]*kubernetes\.io/metadata\.name: ([\w-]+)`,
		} {
			for shown := range find(page, pattern) {
				if found++; shown != namespace && !others[shown] {
					t.Errorf("%s has the namespace %s, other pages %s", name, shown, namespace)
				}
			}
		}
	}
	if found < 10 {
		t.Errorf("only %d namespaces were found", found)
	}
}

// TestTheRules: docs/security.md has a row for each thing in Kubernetes that the chart lets the agent and the
// trigger do, and no other.
func TestTheRules(t *testing.T) {
	t.Parallel()
	granted := set{}
	for who, rules := range map[string][]rbacv1.PolicyRule{ // test/chart compares them with the chart.
		"agent":    slices.Concat(agentrules.All(), agentrules.Restarts(), agentrules.Own(), agentrules.History()),
		"handover": agentrules.Handover("redis"),
		"trigger":  slices.Concat(agentrules.Trigger(), agentrules.TriggerTaints(), agentrules.TriggerOwn()),
		"watch":    agentrules.Watch(),
	} {
		for _, rule := range rules {
			for _, verb := range rule.Verbs {
				granted.with(who + " " + verb + " " + rule.Resources[0])
			}
		}
	}
	documented := set{}
	rows := regexp.MustCompile("(?m)^\\| ((?:agent|trigger|watch|handover)[a-z, ]*) \\| (`[^|]+`) \\| ([a-z, ]+) \\|")
	for _, m := range rows.FindAllStringSubmatch(Pages(t)["docs/security.md"], -1) {
		for who := range strings.SplitSeq(m[1], ", ") {
			for on := range strings.SplitSeq(strings.ReplaceAll(m[2], "`", ""), ", ") {
				for verb := range strings.SplitSeq(m[3], ", ") {
					documented.with(who + " " + verb + " " + on)
				}
			}
		}
	}
	if diff := cmp.Diff(granted, documented); diff != "" {
		t.Errorf("docs/security.md (-what the roles grant +what it explains):\n%s", diff)
	}
}
