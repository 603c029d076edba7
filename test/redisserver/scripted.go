package redisserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Scripts are what the pods of a group run: shell scripts that write a configuration to the folder /data, which is the
// volume of the pod, and execute the server. Their environment has the ADDRESS and the HOSTNAME of the pod, and the
// PASSWORD of the user. The pods have the names redis-0.redis and so on, and sentinel-0.sentinel and so on.
type Scripts struct {
	Server   string
	Sentinel string // Without it the servers become a cluster.
}

// NewScripted starts a group of three servers and three sentinels, or a cluster of three shards, by scripts.
func NewScripted(ctx context.Context, scripts Scripts) (*Group, error) {
	g, err := newGroup(ctx)
	if err != nil {
		return nil, err
	}
	if err := startScripted(ctx, g, scripts); err != nil {
		return nil, errors.Join(err, g.Close())
	}
	return g, nil
}

func startScripted(ctx context.Context, g *Group, scripts Scripts) error {
	const size = 3
	if err := installCommands(g); err != nil {
		return err
	}
	if scripts.Sentinel == "" {
		g.shards = size
		if err := addScripted(ctx, g, "redis", scripts.Server, 2*size); err != nil {
			return err
		}
		return join(ctx, g)
	}
	if err := addScripted(ctx, g, "redis", scripts.Server, size); err != nil {
		return err
	}
	if err := addScripted(ctx, g, "sentinel", scripts.Sentinel, size); err != nil {
		return err
	}
	return g.WaitWatched(ctx)
}

// addScripted starts servers or sentinels, one after the other, as a StatefulSet does.
func addScripted(ctx context.Context, g *Group, workload, script string, count int) error {
	for i := range count {
		s, err := newServer(g.dir, fmt.Sprintf("%s-%d", workload, i), g.NewIP(), func() string { return "" })
		if err != nil {
			return err
		}
		s.Sentinel = workload == "sentinel"
		s.script = func(ctx context.Context) (*exec.Cmd, error) { return scripted(ctx, g, s, script) }
		if s.Sentinel {
			g.Sentinels = append(g.Sentinels, s)
		} else {
			g.Servers = append(g.Servers, s)
		}
		if err := s.Start(ctx); err != nil {
			return err
		}
	}
	return nil
}

// scripted returns the command of a script. What resolves host names finds those of the pods that were started.
func scripted(ctx context.Context, g *Group, s *Server, script string) (*exec.Cmd, error) {
	var hosts strings.Builder
	for _, one := range slices.Concat(g.Servers, g.Sentinels) {
		workload, _, _ := strings.Cut(one.Name, "-")
		fmt.Fprintf(&hosts, "%s %s.%s\n", one.IP(), one.Name, workload)
	}
	path := filepath.Join(s.dir, "hosts")
	if err := os.WriteFile(path, []byte(hosts.String()), 0o600); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", strings.ReplaceAll(script, "/data", s.dir))
	cmd.Env = []string{
		"PATH=" + filepath.Join(g.dir, "bin") + ":/usr/bin:/bin", "REAL=" + filepath.Join(g.dir, "real"), "HOSTS=" + path,
		"ADDRESS=" + s.IP(), "HOSTNAME=" + s.Name, "PASSWORD=" + Password,
	}
	return cmd, nil
}

// installCommands installs what scripts run. The commands do what a pod has and a process has not: they resolve the
// names of pods, and keep a server to the address of its pod.
func installCommands(g *Group) error {
	server, err := Find()
	if err != nil {
		return err
	}
	client, err := exec.LookPath("redis-cli")
	if err != nil {
		return err
	}
	err = errors.Join(os.Mkdir(filepath.Join(g.dir, "bin"), 0o700), os.Mkdir(filepath.Join(g.dir, "real"), 0o700))
	for name, program := range map[string]string{"redis-server": server, "redis-sentinel": server, "redis-cli": client} {
		err = errors.Join(err, os.Symlink(program, filepath.Join(g.dir, "real", name)))
	}
	const start = `while read -r ip name; do sed -i "s/^replicaof $name /replicaof $ip /" "$1"; done <"$HOSTS"
exec "$REAL/${0##*/}" "$1" --bind "$ADDRESS" --bind-source-addr "$ADDRESS" --protected-mode no
`
	for name, script := range map[string]string{
		"redis-server": start, "redis-sentinel": start,
		"getent": `grep " $2\$" "$HOSTS"` + "\n",
		"redis-cli": `ip=$(sed -n "s/ $2\$//p" "$HOSTS")
shift 2
exec "$REAL/redis-cli" -h "${ip:?}" "$@"
`,
	} {
		path := filepath.Join(g.dir, "bin", name)
		err = errors.Join(err, os.WriteFile(path, []byte("#!/bin/sh\nset -eu\n"+script), 0o700)) //nolint:gosec // a program
	}
	return err
}
