package refresh

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// TestTerminatingHookOfAnAgent: a terminating hook counts if a live agent answers it, and with a warning if that cannot
// be known, and its name is no agent's.
func TestTerminatingHookOfAnAgent(t *testing.T) {
	t.Parallel()
	drain, foreign := Hook{Name: "node-drainer-terminating", Terminating: true}, Hook{Name: "upload-logs", Terminating: true}
	ready := Hook{Name: "node-drainer-launching"}
	unknown := &AgentFacts{Unknown: errors.New("forbidden")}
	for name, tt := range map[string]struct {
		hooks  []Hook
		agents *AgentFacts
		want   Level
		says   string
		launch bool
	}{
		"an agent answers it":                    {[]Hook{drain, ready}, &AgentFacts{Answered: []string{drain.Name, ready.Name}, Live: []string{"kube-system/node-drainer"}}, OK, drain.Name, true},
		"beside a foreign one":                   {[]Hook{foreign, drain}, &AgentFacts{Answered: []string{drain.Name}, Live: []string{"a/b"}}, OK, drain.Name, false},
		"a foreign one only":                     {[]Hook{foreign, ready}, &AgentFacts{Live: []string{"kube-system/node-drainer"}}, Refuse, "known to answer the terminating hook upload-logs, and without one pods would be killed: set HOOK_NAMES", false},
		"several foreign ones":                   {[]Hook{foreign, drain}, &AgentFacts{Live: []string{"a/b"}}, Refuse, "the terminating hooks upload-logs, node-drainer-terminating, and", false},
		"the agent does not run":                 {[]Hook{drain}, &AgentFacts{Stopped: []string{"kube-system/node-drainer"}}, Refuse, "was not renewed lately: kube-system/node-drainer", false},
		"no agent was ever there":                {[]Hook{drain}, &AgentFacts{}, Warn, "answer the terminating hook node-drainer-terminating, and without one pods would be killed: none in the cluster has a Lease", false},
		"not known, and the name is an agent's":  {[]Hook{drain, ready}, unknown, OK, drain.Name, true},
		"not known, and the name is another's":   {[]Hook{foreign}, unknown, Warn, "upload-logs", false},
		"without Kubernetes, of the own name":    {[]Hook{drain}, nil, OK, drain.Name, false},
		"without Kubernetes, of a foreign name":  {[]Hook{foreign}, nil, Warn, "upload-logs", false},
		"no terminating hook, whoever else runs": {[]Hook{ready}, &AgentFacts{Live: []string{"a/b"}}, Refuse, "no terminating hook", false},
	} {
		f := Facts{Hooks: tt.hooks, Agents: tt.agents}
		level, text := checkTerminatingHook(Group{}, f)
		if level != tt.want || !strings.Contains(text, tt.says) {
			t.Errorf("%s: %s: %s, want %s: %s", name, level, text, tt.want, tt.says)
		}
		if f.LaunchHook() != tt.launch {
			t.Errorf("%s: a launch hook: %t", name, f.LaunchHook())
		}
	}
	short := Facts{Hooks: []Hook{{Name: "drain", Terminating: true, GlobalTimeout: time.Minute}, {Name: "logs", Terminating: true, GlobalTimeout: 48 * time.Hour}}, Agents: &AgentFacts{Answered: []string{"drain"}}}
	if level, text := checkHookTimeout(Group{}, short); level != Warn {
		t.Errorf("the timeout of a foreign hook counts: %s: %s", level, text)
	}
}
