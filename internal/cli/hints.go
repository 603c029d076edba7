package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/node-drainer/node-drainer/internal/cloud"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// argumentHint says what to type instead if err is cobra's, which has no type, for an argument that is no command and
// resembles none; else it is empty.
func argumentHint(err error) string {
	if err == nil || !strings.HasPrefix(err.Error(), "unknown command ") || strings.Contains(err.Error(), "Did you mean") {
		return ""
	}
	switch argument := strings.Split(err.Error(), `"`)[1]; {
	case regexp.MustCompile(`^[\x{2010}-\x{2015}\x{2212}]`).MatchString(argument): // as word processors make of hyphens
		return ": it begins with a dash: flags begin with hyphens, as in --asg"
	case slices.Contains([]string{"true", "false", "yes", "no", "on", "off", "0", "1"}, strings.ToLower(argument)):
		return ": a flag without a value is true; for false, write --flag=false"
	}
	return ": groups are named by --asg, several with commas; trigger --help lists the commands"
}

// awsHint says what the user can do about an error of a call to AWS; else it is empty.
func awsHint(err error) string {
	if hint := cloud.Hint(err); hint != "" {
		return "; " + hint
	}
	return ""
}

// accountHint says which account was asked, and in which Region, if err is that a group does not exist there.
func (e *executor) accountHint(ctx context.Context, err error) string {
	if !errors.Is(err, refresh.ErrNoGroup) || e.aws.Region == "" {
		return ""
	}
	account := ""
	if identity, _ := cloud.Identify(ctx, e.aws); identity.Account != "" {
		account = "account " + identity.Account + ", "
	}
	return " (" + account + "Region " + e.aws.Region + ")"
}

// contextHint names the contexts of the Kubernetes configuration if it has no such one; else it is empty.
func contextHint(rules *clientcmd.ClientConfigLoadingRules, name string) string {
	config, err := rules.Load()
	if err != nil || name == "" || config.Contexts[name] != nil || len(config.Contexts) == 0 {
		return ""
	}
	return "; there is " + strings.Join(slices.Sorted(maps.Keys(config.Contexts)), ", ")
}

// noteSilence prints the note unless the timer is stopped within seconds.
func (e *executor) noteSilence(note string) *time.Timer {
	return time.AfterFunc(e.patience, func() { _, _ = fmt.Fprintf(e.stderr, "trigger: %s; still trying\n", note) })
}

// getCredentials fails at the start if there are no credentials, or if what issues them does not answer.
func (e *executor) getCredentials(ctx context.Context, cfg aws.Config) error {
	defer e.noteSilence("no AWS credentials yet").Stop()
	ctx, cancel := context.WithTimeout(ctx, credentialsTimeout)
	defer cancel()
	_, err := cfg.Credentials.Retrieve(ctx)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("get AWS credentials in %v: %w; %s", credentialsTimeout, err, cloud.ReachHint)
	}
	return fmt.Errorf("get AWS credentials (AWS_PROFILE, aws sso login or aws configure): %w", err)
}

// answering prints a note if AWS does not answer within seconds after the first request, with the reason if it knows
// one.
type answering struct {
	aws.HTTPClient
	begin    sync.Once
	patience time.Duration
	silence  *time.Timer // Stopped before the first request.
	failure  atomic.Value
}

func (e *executor) newAnswering(cfg aws.Config) *answering {
	a := &answering{HTTPClient: cfg.HTTPClient, patience: e.patience}
	a.silence = time.AfterFunc(time.Hour, func() {
		why, _ := a.failure.Load().(string)
		_, _ = fmt.Fprintf(e.stderr, "trigger: no answer yet from AWS in Region %s; still trying%s; %s\n", cfg.Region, why,
			cloud.ReachHint)
	})
	a.silence.Stop()
	return a
}

// Do implements aws.HTTPClient.
func (a *answering) Do(r *http.Request) (*http.Response, error) {
	a.begin.Do(func() { a.silence.Reset(a.patience) })
	response, err := a.HTTPClient.Do(r)
	if err == nil {
		a.silence.Stop()
	} else {
		a.failure.Store(": " + err.Error())
	}
	return response, err
}
