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
			"Time from the end of one look at the groups, and of its rollouts, to the next look.",
			time.Second, 24*time.Hour),
		windowOption(&s.Windows),
		textOption(&s.lease, "lease", "[NAMESPACE/]NAME",
			"Lease by which replicas elect the one that works, by default in the namespace of the pod.").onKubernetes(),
		textOption(&s.listen, "listen", "ADDRESS",
			"Address for /metrics, /healthz and /readyz, such as :8080.").
			checked(regexp.MustCompile(`:[0-9]+$`).MatchString, "HOST:PORT or :PORT"),
	}
}

func windowOption(p *refresh.Windows) *option {
	return &option{
		name: "window", kind: "WINDOW", many: true,
		help: `Time of the week in which rollouts go on, by default always: '[DAY[-DAY] ]HH:MM-HH:MM[ ZONE]', for example
			'Mon-Fri 22:00-05:00 Europe/Berlin'. Separate several by commas, or repeat the flag. Outside them nothing
			begins, and a refresh is paused.`,
		read: func(text string) error {
			w, err := refresh.ParseWindow(text)
			if err == nil {
				*p = append(*p, w)
			}
			return err
		},
	}
}
