package cli

import (
	"regexp"
	"time"
	_ "time/tzdata" // The image has no time zones.

	"github.com/node-drainer/node-drainer/pkg/refresh"
)

func watchOptions(s *settings) []*option {
	return []*option{
		duration(into(&s.Interval), shortDuration(s.Interval), "interval",
			`Time from the end of one look at the groups, and of the rollouts that it has found necessary, to the next
			look.`,
			time.Second, 24*time.Hour),
		windowOption(&s.Windows),
		textOption(&s.lease, "lease", "[NAMESPACE/]NAME",
			`Lease by which several replicas elect the one that works; the others stand by. Events of rollouts are recorded
			on it. The default namespace is the pod's. If not set, this process works at once.`).onKubernetes(),
		textOption(&s.listen, "listen", "ADDRESS",
			"Address for /metrics, /healthz and /readyz, such as :8080. If not set, the watch serves nothing.").
			checked(regexp.MustCompile(`:[0-9]+$`).MatchString, "HOST:PORT or :PORT"),
	}
}

func windowOption(p *refresh.Windows) *option {
	return &option{
		name: "window", kind: "WINDOW", many: true,
		help: `Time of the week in which rollouts go on: '[DAY[-DAY] ]HH:MM-HH:MM[ ZONE]', for example
			'Mon-Fri 22:00-05:00 Europe/Berlin'. The days are those on which it begins, and the default zone is UTC.
			Separate several by commas, or repeat the flag. Outside them no group and no batch begins, and a running
			refresh that began in one is paused, by suspending the process InstanceRefresh. If not set, rollouts go on
			at all times.`,
		read: func(text string) error {
			w, err := refresh.ParseWindow(text)
			if err == nil {
				*p = append(*p, w)
			}
			return err
		},
	}
}
