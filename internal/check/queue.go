package check

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/node-drainer/node-drainer/internal/cloud"
)

// The names of checks.
const (
	checkCredentials = "credentials"
	checkQueue       = "queue"
	checkPolicy      = "queue policy"
	checkEncryption  = "encryption"
	checkGroups      = "groups"
	checkHooks       = "hooks"
	checkSettings    = "account"
	checkRules       = "rules"
	checkPermissions = "permissions"
	checkNodes       = "nodes"
	checkRights      = "rbac"
)

// The bounds of the attributes of the queue.
const (
	leastRetention = 24 * time.Hour // a message must outlive a long drain, and a night without an agent
	goodRetention  = "1209600"      // 14 days, the most
	leastReceives  = 10             // a long drain receives its message more than once
)

func (f Facts) noCredentials() bool { return errors.Is(f.IdentityErr, cloud.ErrNoCredentials) }

func judgeCredentials(f Facts) []Result {
	switch who := f.Identity; {
	case f.noCredentials():
		return one(checkCredentials, Failed, f.IdentityErr.Error(), associate(f))
	case who.FromNode():
		return one(checkCredentials, Warning, "the credentials are those of the node, which every pod on it can use: "+
			who.ARN, associate(f))
	case f.IdentityErr != nil:
		return one(checkCredentials, NotChecked, "AWS does not say whose credentials these are (from "+who.Provider+"): "+
			f.IdentityErr.Error(), "")
	default:
		return one(checkCredentials, OK, who.ARN+" (from "+who.Provider+"), Region "+f.Region, "")
	}
}

// queueRegion finds the Region in the host of the URL of a queue.
var queueRegion = regexp.MustCompile(`^sqs(?:-fips)?\.([a-z0-9-]+)\.(?:amazonaws|api)\.`)

func judgeQueue(f Facts) []Result {
	u, _ := url.Parse(f.Config.Queue.URL) // the configuration is valid
	if m := queueRegion.FindStringSubmatch(u.Host); m != nil && m[1] != f.Region {
		return one(checkQueue, Failed, fmt.Sprintf("QUEUE_URL is of the Region %s, and the agent calls AWS in %s",
			m[1], f.Region), helm(f, "aws.region="+m[1]))
	}
	name := queueName(f)
	switch err := f.QueueErr; {
	case isNoQueue(err):
		return one(checkQueue, Failed, "the queue of QUEUE_URL does not exist: "+f.Config.Queue.URL,
			"aws sqs get-queue-url --region "+f.Region+" --queue-name "+name+" shows the URL if the queue exists, for "+
				helm(f, "config.queue.url=URL")+"; otherwise create it: terraform apply, or docs/aws-setup.md#the-queue")
	case cloud.IsDenied(err):
		return one(checkQueue, Failed, "AWS denies sqs:GetQueueAttributes on "+f.Config.Queue.URL+
			": the queue does not exist, or the permission is missing", "aws sqs get-queue-url --region "+f.Region+
			" --queue-name "+name+" shows whether it exists, for "+helm(f, "config.queue.url=URL")+"; if QUEUE_URL is right: "+
			grantQueue(f, "GetQueueAttributes"))
	case err != nil:
		return one(checkQueue, Failed, err.Error(), reach(f, "sqs"))
	case f.Queue.FIFO:
		return one(checkQueue, Failed, name+" is a FIFO queue, to which neither hooks nor rules send",
			"aws sqs create-queue --region "+f.Region+" --queue-name "+strings.TrimSuffix(name, ".fifo")+
				", then send hooks and rules to it, and "+helm(f, "config.queue.url=URL"))
	}
	if found := queueWarnings(f); len(found) > 0 {
		return found
	}
	return one(checkQueue, OK, f.Queue.ARN+" exists", "")
}

// queueWarnings judges how long the queue keeps messages.
func queueWarnings(f Facts) (results []Result) {
	if r := f.Queue.Retention; r > 0 && r < leastRetention {
		results = append(results, Result{
			checkQueue, Warning, fmt.Sprintf("the queue deletes messages after %v, which a drain can outlast", r),
			setQueue(f, "MessageRetentionPeriod="+goodRetention),
		})
	}
	if n := f.Queue.MaxReceives; n > 0 && n < leastReceives {
		results = append(results, Result{
			checkQueue, Warning, fmt.Sprintf("the redrive policy moves messages to the dead-letter queue after %d receives, "+
				"and a long drain needs many", n),
			"set maxReceiveCount to 100 in the redrive policy: docs/aws-setup.md#a-dead-letter-queue",
		})
	}
	return results
}

// isNoQueue reports whether SQS says that there is no such queue, in its older or its newer words.
func isNoQueue(err error) bool {
	return slices.Contains([]string{"QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue"}, cloud.ErrorCode(err))
}

// eventsFailed is the status of what keeps EventBridge from sending: hooks without a target depend on it, and without
// such hooks only events without a hook.
func eventsFailed(f Facts) Status {
	for _, g := range f.Groups {
		for _, h := range allOwnHooks(f, g) {
			if h.Target == "" {
				return Failed
			}
		}
	}
	return Warning
}

func judgePolicy(f Facts) []Result {
	if f.QueueErr != nil {
		return nil
	}
	policy, err := parsePolicy(f.Queue.Policy)
	switch {
	case err != nil:
		return one(checkPolicy, NotChecked, "cannot read the policy of the queue: "+err.Error(), "")
	case !policy.allows(eventBridge, f.Queue.ARN):
		return append(one(checkPolicy, eventsFailed(f), "the policy of the queue does not let EventBridge ("+eventBridge+
			") send", setPolicy(f)), deniedSenders(f, policy)...)
	}
	if denied := deniedSenders(f, policy); len(denied) > 0 {
		return denied
	}
	return one(checkPolicy, OK, "EventBridge and the roles of the hooks may send", "")
}

// deniedSenders judges whether the policy denies the roles of hooks to send.
func deniedSenders(f Facts, policy queuePolicy) (results []Result) {
	seen := map[string]bool{}
	for _, g := range f.Groups {
		for _, h := range allOwnHooks(f, g) {
			if h.RoleARN == "" || seen[h.RoleARN] || !isOwnQueue(f, h.Target) || !policy.denies(h.RoleARN) {
				continue
			}
			seen[h.RoleARN] = true
			results = append(results, Result{
				checkPolicy, Failed, fmt.Sprintf("the policy of the queue denies %s to send, the role of the hook %s of group %s",
					h.RoleARN, h.Name, g.Name),
				fmt.Sprintf("add %q to senders of the Terraform module (Senders of the CloudFormation template)", h.RoleARN),
			})
		}
	}
	return results
}

// managedKey is the alias of the key that AWS manages for SQS. Its policy cannot be changed, and does not let
// EventBridge use it. Source: "Encryption at rest in Amazon SQS", key policies for AWS services.
const managedKey = "alias/aws/sqs"

func judgeEncryption(f Facts) []Result {
	switch key := f.Queue.Key; {
	case f.QueueErr != nil:
		return nil
	case strings.HasSuffix(key, managedKey):
		return one(checkEncryption, eventsFailed(f), "the queue is encrypted with "+key+", which EventBridge cannot use",
			setQueue(f, `'{"KmsMasterKeyId":"","SqsManagedSseEnabled":"true"}'`))
	case key != "":
		return one(checkEncryption, NotChecked, "the policy of the key "+key+" must let "+eventBridge+
			" and the role of the hooks use it", "aws kms get-key-policy --region "+f.Region+" --key-id "+key+
			" --policy-name default shows it: docs/iam.md has the one that is needed")
	}
	return one(checkEncryption, OK, "no KMS key, so that each sender can send", "")
}
