package nodegroup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/eks"
	"github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/node-drainer/node-drainer/internal/cloud"
	"github.com/node-drainer/node-drainer/pkg/refresh"
)

// WriterAPI are the calls of a Writer.
type WriterAPI interface {
	UpdateNodegroupVersion(
		context.Context, *sdk.UpdateNodegroupVersionInput, ...func(*sdk.Options),
	) (*sdk.UpdateNodegroupVersionOutput, error)
}

// Writer updates node groups. Make it with NewWriter.
type Writer struct{ api WriterAPI }

// NewWriter returns a Writer. The client must retry what AWS throttles.
func NewWriter(api WriterAPI) *Writer { return &Writer{api} }

// Start starts an update of the group's node group to what its nodes are to have, and returns its id. Calls that repeat
// one whose answer was lost start no other update. It returns refresh.ErrInProgress if another one is under way.
func (w *Writer) Start(
	ctx context.Context, g refresh.Group, t refresh.Target, _ bool, _ refresh.Preferences,
) (id string, err error) {
	out, err := w.api.UpdateNodegroupVersion(ctx, input(g.Nodegroup, t))
	switch {
	case cloud.ErrorCode(err) == (&types.ResourceInUseException{}).ErrorCode():
		return "", fmt.Errorf("update the node group %s: %w: %w", g.Nodegroup.Name, refresh.ErrInProgress, err)
	case err != nil:
		return "", fmt.Errorf("update the node group %s: %w", g.Nodegroup.Name, err)
	}
	return aws.ToString(out.Update.Id), nil
}

// input asks for what the nodes are to have. EKS takes neither a Kubernetes nor a release version for an AMI of the
// user's, and updates the group to the control plane's version if the first is left out. Source: UpdateNodegroupVersion
// in the EKS API reference.
func input(n *refresh.Nodegroup, t refresh.Target) *sdk.UpdateNodegroupVersionInput {
	in := &sdk.UpdateNodegroupVersionInput{
		ClusterName: &n.Cluster, NodegroupName: &n.Name, Force: n.Force, ClientRequestToken: aws.String(token(n, t)),
	}
	if n.Wants.Kubernetes != "" {
		in.Version = &n.Wants.Kubernetes
	}
	if n.Wants.Release != "" {
		in.ReleaseVersion = &n.Wants.Release
	}
	if has, wants := n.Has.Template, n.Wants.Template; wants != nil && (n.Custom || has.Version != wants.Version) {
		in.LaunchTemplate = &types.LaunchTemplateSpecification{Id: &wants.ID, Version: &wants.Version}
	}
	return in
}

// token is the same for each attempt to start this update, also by a trigger that is started again. Once an update has
// begun or ended, EKS has modified the group, so that the next one has another token.
func token(n *refresh.Nodegroup, t refresh.Target) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %s %t %s",
		n.Cluster, n.Name, t.Key, n.Force, n.Modified.UTC().Format(time.RFC3339Nano)))
	return "node-drainer-" + hex.EncodeToString(sum[:16])
}
