package migrate

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

//go:generate go test -run ^Test(Pages|Files)$ . -update

var update = flag.Bool("update", false, "write what the tests compare with")

// show returns what a configuration becomes on one line: values or words, then what is missing behind "-", and what is
// not needed behind "0".
func show(r *Result) string {
	all := slices.Clone(r.command)
	for _, path := range slices.Sorted(maps.Keys(r.values)) {
		all = append(all, fmt.Sprintf("%s=%v", path, r.values[path]))
	}
	for _, m := range r.Missing {
		all = append(all, fmt.Sprintf("-%d:%s", m.Line, m.Name))
	}
	for _, u := range r.Unneeded {
		for _, name := range u.Names {
			all = append(all, "0"+name)
		}
	}
	return strings.Join(all, " ")
}

// cases are configurations, by the names of their programs, with what they become.
func cases() map[string]map[string]string {
	return map[string]map[string]string{
		"nth": nthCases(), "lifecycle-manager": lifecycleManagerCases(), "eks-rolling-update": eksRollingUpdateCases(),
		"aws-asg-roller": asgRollerCases(),
	}
}

func nthCases() map[string]string {
	all := map[string]string{
		"enableSqsTerminationDraining: true":                    "",
		"enableSqsTerminationDraining: false":                   "-1:enableSqsTerminationDraining",
		"queueURL: https://sqs.example.com/1/q":                 "config.queue.url=https://sqs.example.com/1/q",
		"awsRegion: eu-central-1":                               "aws.region=eu-central-1",
		"awsEndpoint: https://example.com":                      "-1:awsEndpoint",
		"awsAccessKeyID: AKIA\nawsSecretAccessKey: x":           "-1:awsAccessKeyID -2:awsSecretAccessKey",
		"managedTag: aws-node-termination-handler/managed":      "",
		"managedTag: x\nmanagedAsgTag: x":                       "-1:managedTag -2:managedAsgTag",
		"enableRebalanceMonitoring: true":                       "config.event.rebalanceRecommendation=drain",
		"enableRebalanceDraining: \"true\"":                     "config.event.rebalanceRecommendation=drain",
		"enableRebalanceDraining: false":                        "",
		"cordonOnly: false":                                     "",
		"cordonOnly: true\nenableRebalanceDraining: true":       "config.event.rebalanceRecommendation=cordon config.event.scheduledChange=cordon config.event.spotInterruption=cordon config.event.stateChange=cordon -1:cordonOnly",
		"taintEffect: NoExecute":                                "config.node.taintEffect=NoExecute",
		"excludeFromLoadBalancers: true":                        "config.node.excludeFromLoadBalancers=early",
		"excludeFromLoadBalancers: false":                       "config.node.excludeFromLoadBalancers=off",
		"enableOutOfServiceTaint: true":                         "-1:enableOutOfServiceTaint",
		"enableOutOfServiceTaint: false":                        "",
		"deleteLocalData: true":                                 "config.drain.emptydirPods=evict",
		"deleteLocalData: false":                                "config.drain.emptydirPods=wait",
		"podTerminationGracePeriod: 30\ngracePeriod: 60":        "-1:podTerminationGracePeriod -2:gracePeriod",
		"podTerminationGracePeriod: -1":                         "",
		"nodeTerminationGracePeriod: 900":                       "config.drain.timeout=900s",
		"nodeTerminationGracePeriod: 120":                       "0nodeTerminationGracePeriod",
		"nodeTerminationGracePeriod: 900\nheartbeatUntil: 3600": "config.drain.timeout=3600s",
		"heartbeatInterval: 30":                                 "config.hook.heartbeatInterval=30s",
		"heartbeatInterval: -1":                                 "",
		"completeLifecycleActionDelaySeconds: 45":               "config.drain.loadBalancerWait=45s",
		"webhookURL: https://example.com/secret":                "-1:webhookURL",
		"webhookURLSecretName: hooks":                           "notify.existingSecret.key=webhookurl notify.existingSecret.name=hooks",
		`webhookHeaders: '{"X-Token":"secret"}'`:                "-1:webhookHeaders",
		`webhookHeaders: '{"Content-type":"application/json"}'`: "",
		"webhookProxy: http://proxy":                            "-1:webhookProxy",
		"webhookTemplate: x\nwebhookTemplateFile: x\nwebhookTemplateConfigMapName: x\nwebhookTemplateConfigMapKey: x": "-1:webhookTemplate -2:webhookTemplateFile -3:webhookTemplateConfigMapName -4:webhookTemplateConfigMapKey",
		"kubernetesEventsExtraAnnotations: a=b": "-1:kubernetesEventsExtraAnnotations",
		"logLevel: WARN":                        "config.log.level=warn",
		"jsonLogging: true":                     "config.log.format=json",
		"jsonLogging: false":                    "config.log.format=console",
		"dryRun: true":                          "config.dryRun=true",
		"podMonitor: {create: true, namespace: a, labels: {a: b}, interval: 10s, sampleLimit: 9}":     "metrics.podMonitor.enabled=true metrics.serviceMonitor.interval=10s metrics.serviceMonitor.labels=map[a:b] metrics.serviceMonitor.namespace=a metrics.serviceMonitor.sampleLimit=9",
		"serviceMonitor: {create: true, namespace: a, labels: {a: b}, interval: 10s, sampleLimit: 9}": "metrics.serviceMonitor.enabled=true metrics.serviceMonitor.interval=10s metrics.serviceMonitor.labels=map[a:b] metrics.serviceMonitor.namespace=a metrics.serviceMonitor.sampleLimit=9",
		"replicas: 1":                       "",
		"replicas: 3":                       "replicas=3",
		"tolerations: [{operator: Exists}]": "-1:tolerations",
		"tolerations:\n- {key: a, operator: Exists}\n- {operator: Exists}":       "tolerations=[map[key:a operator:Exists]] -3:tolerations",
		"affinity:\n  nodeAffinity: {a: 1}\n  podAntiAffinity: {b: 2}":           "affinity=map[nodeAffinity:map[a:1]] -3:affinity.podAntiAffinity",
		"linuxAffinity: {nodeAffinity: {a: 1}}":                                  "affinity=map[nodeAffinity:map[a:1]]",
		"nodeSelector: {a: 1}":                                                   "nodeSelector=map[a:1]",
		"linuxNodeSelector: {a: b}":                                              "nodeSelector=map[a:b]",
		"podAnnotations: {a: b}":                                                 "podAnnotations=map[a:b]",
		"linuxPodAnnotations: {a: b}":                                            "podAnnotations=map[a:b]",
		"podLabels: {a: b}":                                                      "podLabels=map[a:b]",
		"linuxPodLabels: {a: b}":                                                 "podLabels=map[a:b]",
		"customLabels: {a: b}":                                                   "commonLabels=map[a:b]",
		"priorityClassName: high":                                                "priorityClassName=high",
		"podDisruptionBudget: {maxUnavailable: 1}":                               "podDisruptionBudget.maxUnavailable=1",
		"podDisruptionBudget: {maxUnavailable: 50%}":                             "podDisruptionBudget.maxUnavailable=50%",
		"podDisruptionBudget: {minAvailable: 1}":                                 "-1:podDisruptionBudget.minAvailable",
		"image: {pullSecrets: [a, {name: b}]}":                                   "imagePullSecrets=[map[name:a] map[name:b]]",
		"serviceAccount: {create: false, name: a, annotations: {b: c}}":          "serviceAccount.annotations=map[b:c] serviceAccount.create=false serviceAccount.name=a",
		"rbac: {create: false, pspEnabled: true}":                                "rbac.create=false 0rbac.pspEnabled",
		"dnsPolicy: Default":                                                     "dnsPolicy=Default",
		"dnsConfig: {options: [{name: ndots}]}":                                  "dnsConfig=map[options:[map[name:ndots]]]",
		"extraEnv: [{name: AWS_PROFILE, value: a}, {name: WORKERS, value: '2'}]": "extraEnv=[map[name:AWS_PROFILE value:a]] -1:extraEnv.WORKERS",
		"mistake: 1\ndeep:\n  er: {x: 2}\nnothing: {}":                           "-1:mistake -3:deep.er.x",
		"# nothing\nqueueURL:":                                                   "",
	}
	for _, o := range nodeTerminationHandler().options {
		if o.ours == unneeded {
			for name := range o.each() {
				outer, inner, nested := strings.Cut(name, ".")
				set := ": x"
				if nested {
					set = ": {" + inner + ": x}"
				}
				all[outer+set] = "0" + name
			}
		}
	}
	return all
}

func lifecycleManagerCases() map[string]string {
	all := map[string]string{
		"--queue-name=q":                                 "",
		"--region=eu-central-1":                          "aws.region=eu-central-1",
		"--region=eu-central-1 --log-level=warning":      "aws.region=eu-central-1 config.log.level=warn",
		"--drain-timeout=600":                            "config.drain.timeout=1800s",
		"--max-time-to-process=600":                      "config.drain.timeout=600s",
		"--max-time-to-process=3600":                     "config.drain.timeout=900s",
		"--drain-timeout=600 --max-time-to-process=900":  "config.drain.timeout=900s",
		"--drain-timeout=600 --max-time-to-process=3600": "config.drain.timeout=1800s",
		"--with-deregister":                              "config.node.excludeFromLoadBalancers=early",
		"--with-deregister --region=a":                   "aws.region=a config.node.excludeFromLoadBalancers=early",
		"--with-deregister=false":                        "config.node.excludeFromLoadBalancers=off",
		"--region=a --unknown=3":                         "aws.region=a -1:--unknown",
	}
	for _, o := range lifecycleManager().options {
		if o.ours == unneeded {
			for name := range o.each() {
				all[name+"=1"] = "0" + name
			}
		}
	}
	return all
}

func eksRollingUpdateCases() map[string]string {
	const one, raise = "--mode unhealthy --surge 100% --taint-outdated hard", " --raise-max"
	all := map[string]string{
		"-c=prod":                               "trigger --cluster prod " + one + raise,
		"--cluster_name=prod -p":                "trigger plan --cluster prod " + one + raise,
		"--plan --cluster_name=prod":            "trigger plan --cluster prod " + one + raise,
		"DRY_RUN=True":                          "trigger plan " + one + raise,
		"DRY_RUN=0":                             "trigger " + one + raise,
		"ASG_NAMES=a b":                         "trigger --asg a,b " + one + raise,
		"RUN_MODE=1":                            "trigger " + one + raise,
		"RUN_MODE=2":                            "trigger " + one + " --together check,taint,surge" + raise,
		"RUN_MODE=3":                            "trigger " + one + " --together check,taint" + raise,
		"RUN_MODE=4":                            "trigger " + one + " --max-age 144h" + raise,
		"RUN_MODE=4\nMAX_ALLOWABLE_NODE_AGE=30": "trigger " + one + " --max-age 30d" + raise,
		"MAX_ALLOWABLE_NODE_AGE=30":             "trigger " + one + raise,
		"EXCLUDE_NODE_LABEL_KEYS=a b":           "trigger " + one + " --exclude-node-label a --exclude-node-label b" + raise,
		"BATCH_SIZE=3":                          "trigger " + one + " --surge-step 3" + raise,
		"BATCH_SIZE=0":                          "trigger " + one + raise,
		"BETWEEN_NODES_WAIT=90":                 "trigger " + one + " --between 90s" + raise,
		"AWS_DEFAULT_REGION=eu-central-1":       "trigger " + one + " --region eu-central-1" + raise,
		"K8S_CONTEXT=prod":                      "trigger " + one + " --context prod" + raise,
		"K8S_PROXY_BYPASS=True":                 "trigger " + one + raise + " -1:K8S_PROXY_BYPASS",
		"K8S_PROXY_BYPASS=False":                "trigger " + one + raise,
		"K8S_AUTOSCALER_ENABLED=True":           "trigger " + one + " --pause-autoscaler default/cluster-autoscaler" + raise,
		"K8S_AUTOSCALER_ENABLED=1\nK8S_AUTOSCALER_NAMESPACE=a\nK8S_AUTOSCALER_DEPLOYMENT=b": "trigger " + one + " --pause-autoscaler a/b" + raise,
		"ASG_USE_TERMINATION_POLICY=True":     "trigger " + one + raise + " -1:ASG_USE_TERMINATION_POLICY",
		"INSTANCE_WAIT_FOR_STOPPING=True":     "trigger " + one + " --until terminated" + raise,
		"EXTRA_DRAIN_ARGS=--force":            "trigger " + one + raise + " -1:EXTRA_DRAIN_ARGS",
		"DRY_RUN=0\nAWS_PROFILE=prod\nPOST=1": "trigger " + one + raise + " -3:POST 0AWS_PROFILE",
	}
	for _, o := range eksRollingUpdate().options {
		if o.ours == unneeded {
			for name := range o.each() {
				all[name+"=1"] = "trigger " + one + raise + " 0" + name
			}
		}
	}
	return all
}

func asgRollerCases() map[string]string {
	const watch = "watch.enabled=true watch.options.surge=1"
	all := map[string]string{
		"ROLLER_ASG=a, b":                             "watch.enabled=true watch.options.asg=[a b] watch.options.surge=1",
		"ROLLER_KUBERNETES=true":                      watch,
		"ROLLER_KUBERNETES=false":                     "watch.enabled=true watch.options.noKubernetes=true watch.options.surge=1",
		"ROLLER_DRAIN=true":                           watch,
		"ROLLER_DRAIN=false":                          "watch.enabled=true watch.options.allow=[no-terminating-hook] watch.options.surge=1",
		"ROLLER_DRAIN_FORCE=true":                     watch,
		"ROLLER_DRAIN_FORCE=false":                    "config.drain.atDeadline=leave config.drain.barePods=wait " + watch,
		"ROLLER_DELETE_LOCAL_DATA=true":               "config.drain.emptydirPods=evict " + watch,
		"ROLLER_DELETE_LOCAL_DATA=false":              "config.drain.emptydirPods=wait " + watch,
		"ROLLER_INTERVAL=2m":                          "watch.enabled=true watch.options.interval=2m watch.options.surge=1",
		"ROLLER_CAN_INCREASE_MAX=true":                "watch.enabled=true watch.options.raiseMax=true watch.options.surge=1",
		"ROLLER_VERBOSE=true":                         "watch.enabled=true watch.options.output=ndjson watch.options.surge=1",
		"ROLLER_VERBOSE=false":                        watch,
		"ROLLER_DRAIN=true\nAWS_REGION=a\nROLLER_X=a": watch + " -2:AWS_REGION -3:ROLLER_X",
	}
	for _, o := range asgRoller().options {
		if o.ours == unneeded {
			for name := range o.each() {
				all[name+"=1"] = watch + " 0" + name
			}
		}
	}
	return all
}

// asFile returns a case as a file: arguments as those of a container.
func asFile(text string) []byte {
	if !strings.HasPrefix(text, "-") {
		return []byte(text)
	}
	return []byte("containers: [{args: [" + strings.Join(strings.Fields(text), ", ") + "]}]")
}

// TestOptions: each option of each program becomes what its table says.
func TestOptions(t *testing.T) {
	t.Parallel()
	for _, peer := range Peers() {
		seen := map[string]bool{}
		for text, want := range cases()[peer.Name] {
			r, err := peer.Translate(asFile(text))
			if err != nil {
				t.Errorf("%s: %q: %v", peer.Name, text, err)
				continue
			}
			if got := show(r); got != want {
				t.Errorf("%s: %q:\n got %s\nwant %s", peer.Name, text, got, want)
			}
			for name := range r.given {
				seen[name] = true
			}
		}
		for name := range peer.names() {
			if !seen[name] {
				t.Errorf("%s: no case has %s", peer.Name, name)
			}
		}
	}
}

// TestErrors: what cannot be read is an error that has the line.
func TestErrors(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ peer, text, want string }{
		{"nth", "queueURL: a\n  b: c", "line 2"},
		{"nth", "a: 1\nb: 2\na: 3", `line 3: the key "a" is in line 1, too`},
		{"nth", "a: &a 1\nb: *a", "line 2: aliases are not read"},
		{"nth", "{a: 1}: 2", "line 1: a key must be a text"},
		{"nth", "- a", "line 1: it must be one map"},
		{"nth", "", "line 1: it must be one map"},
		{"nth", "apiVersion: v1\nkind: Pod", "line 1: it is an object of Kubernetes"},
		{"nth", "logLevel: info\nheartbeatInterval: soon\nreplicas: many", "line 2: heartbeatInterval must be a whole number\nline 3: replicas must be"},
		{"nth", "queueURL: 'a b'", "line 1: queueURL must be one word"},
		{"nth", "queueURL: [a]", "line 1: queueURL must be one word"},
		{"nth", "queueURL: a\nawsRegion: \x1b", "line 2: it has the control character 0x1b"},
		{"nth", "taintEffect: no", "line 1: taintEffect must be one of NoSchedule"},
		{"nth", "dryRun: perhaps", "line 1: dryRun must be true or false"},
		{"nth", "tolerations: {a: b}", "line 1: tolerations must be a list"},
		{"nth", "podLabels: [a]", "line 1: podLabels must be a map of texts"},
		{"nth", "podLabels: {a: [b]}", "line 1: podLabels must be a map of texts"},
		{"nth", "affinity: x", "line 1: affinity must be a map"},
		{"nth", "dnsConfig: x", "line 1: dnsConfig must be a map"},
		{"nth", "extraEnv: [{value: x}]", "line 1: extraEnv must be a list of variables with names"},
		{"nth", "image: {pullSecrets: [{a: b}]}", "line 1: image.pullSecrets must be a list of names"},
		{"nth", "\xff", "not text in UTF-8"},
		{"nth", strings.Repeat("#", MaxSize+1), "larger than 1 MiB"},
		{"lifecycle-manager", "kind: Deployment", "no container has an option that is known"},
		{"lifecycle-manager", "containers:\n- args: [--drain-timeout=soon]", "line 2: --drain-timeout must be a whole number"},
		{"lifecycle-manager", "containers:\n- env:\n  - value: a", "line 3: a variable has no name"},
		{"eks-rolling-update", "RUN_MODE=1\nRUN MODE=2", "line 2: it must be NAME=VALUE"},
		{"eks-rolling-update", "RUN_MODE=5", "line 1: RUN_MODE must be a number from 1 to 4"},
		{"eks-rolling-update", "DRY_RUN=no\nASG_NAMES=a 'b", "line 2: ASG_NAMES must be a list of names"},
		{"aws-asg-roller", "ROLLER_INTERVAL=30", "line 1: ROLLER_INTERVAL must be a duration"},
	} {
		r, err := named(t, tt.peer).Translate([]byte(tt.text))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %q: got %v, %v, want an error with %q", tt.peer, tt.text, r, err, tt.want)
		}
	}
}

func named(t *testing.T, name string) Peer {
	t.Helper()
	i := slices.IndexFunc(Peers(), func(p Peer) bool { return p.Name == name })
	if i < 0 {
		t.Fatalf("there is no %s", name)
	}
	return Peers()[i]
}

// TestManifests: variables are found in a list, in a CronJob, and with values that are elsewhere.
func TestManifests(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"- {name: ROLLER_ASG, value: a}": "watch.enabled=true watch.options.asg=[a] watch.options.surge=1",
		"kind: CronJob\nspec: {jobTemplate: {spec: {template: {spec: {containers: [\n{name: x, env: [{name: OTHER, value: a}]},\n" +
			"{name: r, env: [{name: ROLLER_ASG, valueFrom: {secretKeyRef: {name: s}}},\n{name: ROLLER_INTERVAL, value: 1m}],\n" +
			"envFrom: [{configMapRef: {name: c}}]}]}}}}}": "watch.enabled=true watch.options.interval=1m watch.options.surge=1 -4:ROLLER_ASG -6:envFrom",
	} {
		r, err := asgRoller().Translate([]byte(text))
		if err != nil {
			t.Errorf("%q: %v", text, err)
		} else if got := show(r); got != want {
			t.Errorf("%q:\n got %s\nwant %s", text, got, want)
		}
	}
}

// TestSecretsAreNotShown: no message has the value of an option.
func TestSecretsAreNotShown(t *testing.T) {
	t.Parallel()
	r, err := nodeTerminationHandler().Translate([]byte("awsSecretAccessKey: geheim\nwebhookURL: https://geheim\nx: geheim"))
	if err != nil || len(r.Missing) != 3 || strings.Contains(fmt.Sprint(r.Missing), "geheim") {
		t.Errorf("%v, %v", r.Missing, err)
	}
}

// TestFiles: the files that users have become those beside them.
func TestFiles(t *testing.T) {
	t.Parallel()
	for _, peer := range Peers() {
		files, err := filepath.Glob("testdata/" + peer.Name + ".*")
		if err != nil || len(files) != 1 {
			t.Fatalf("%s: %q, %v", peer.Name, files, err)
		}
		text, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		r, err := peer.Translate(text)
		if err != nil {
			t.Fatal(err)
		}
		got, err := r.Text()
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range r.Missing {
			got += fmt.Sprintf("# line %d: %v\n", m.Line, m)
		}
		for _, u := range r.Unneeded {
			got += fmt.Sprintf("# %v\n", u)
		}
		hold(t, "testdata/to/"+peer.Name, got)
	}
}

// hold compares a file with what it should be, or writes it.
func hold(t *testing.T, file, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o600); err != nil { // Files that are there keep their mode.
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != want {
		t.Errorf("%s is stale (%v): run make generate; it should be\n%s", file, err, want)
	}
}

// TestPages: the tables of the pages are those of the code.
func TestPages(t *testing.T) {
	t.Parallel()
	tables := map[string]string{"run-modes": RunModeTable()}
	for _, peer := range Peers() {
		tables["options"] = peer.Table()
		file := "../../docs/migration/" + peer.Program + ".md"
		page, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text, found := string(page), 0
		for name, table := range tables {
			before, rest, has := strings.Cut(text, "<!-- "+name+": generated from internal/migrate -->\n\n")
			if !has {
				continue
			}
			found++
			_, after, _ := strings.Cut(rest, "\n\n")
			text = before + "<!-- " + name + ": generated from internal/migrate -->\n\n" + table + "\n" + after
		}
		if found == 0 {
			t.Errorf("%s has no table", file)
		}
		hold(t, file, text)
	}
}

// FuzzTranslate: whatever is read, the result has no line that is not there, and what is written is what was meant.
func FuzzTranslate(f *testing.F) {
	for name, texts := range cases() {
		for text := range texts {
			f.Add(name, asFile(text))
		}
	}
	f.Fuzz(func(t *testing.T, name string, text []byte) {
		for _, peer := range Peers() {
			if peer.Name != name {
				continue
			}
			r, err := peer.Translate(text)
			if err != nil {
				return
			}
			for _, m := range r.Missing {
				if lines := len(regexp.MustCompile(`[\n\r\x{2028}\x{2029}]`).FindAll(text, -1)) + 1; m.Line < 1 || m.Line > lines {
					t.Errorf("%q: line %d of %d", m.Name, m.Line, lines)
				}
			}
			written, err := r.Text()
			if err != nil || r.command != nil {
				return
			}
			var read any
			if err := yaml.UnmarshalStrict([]byte(written), &read); err != nil {
				t.Fatalf("%v in\n%s", err, written)
			}
			if want := asJSON(t, r.tree()); !reflect.DeepEqual(read, want) {
				t.Errorf("%v is written as\n%s", want, written)
			}
		}
	})
}

func asJSON(t *testing.T, v any) (read any) {
	t.Helper()
	text, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(text, &read)
	}
	if err != nil {
		t.Fatal(err)
	}
	return read
}
