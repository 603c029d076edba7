package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	t.Parallel()
	ended, end := context.WithCancel(t.Context())
	end()
	for _, c := range []struct {
		name string
		args []string
		want []string
		fail string
	}{
		{
			name: "help teaches",
			args: []string{"--help"},
			want: []string{"awsim is a small AWS", "/_awsim/faults", "-queue name"},
		},
		{
			name: "variables and queues are printed",
			args: []string{
				"--listen", "127.0.0.1:0", "--region", "us-east-1", "--account", "1", "--queue", "a",
				"--queue", "b",
			},
			want: []string{
				"export AWS_ENDPOINT_URL=http://127.0.0.1:", "export AWS_REGION=us-east-1\n",
				"export AWS_ACCESS_KEY_ID=test\n", "/1/a\n", "/1/b\n",
			},
		},
		{name: "an unknown flag", args: []string{"--no"}, fail: "not defined: -no"},
		{name: "no name of a queue", args: []string{"--queue", "a.b"}, fail: `"a.b" is no name of a queue`},
		{name: "no such address", args: []string{"--listen", "256.0.0.1:0"}, fail: "awsim: listen"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			err := run(ended, c.args, &out)
			if (err != nil) != (c.fail != "") || err != nil && !strings.Contains(err.Error(), c.fail) {
				t.Fatalf("ended with %v", err)
			}
			for _, want := range c.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("%q is missing in:\n%s", want, out.String())
				}
			}
		})
	}
}
