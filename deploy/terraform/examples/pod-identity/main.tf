# The agent and the trigger with EKS Pod Identity, on a managed node group, with launch hooks and a customer managed key.

variable "cluster_name" {
  type = string
}

variable "node_group_name" {
  type = string
}

data "aws_eks_node_group" "workers" {
  cluster_name    = var.cluster_name
  node_group_name = var.node_group_name
}

resource "aws_kms_key" "queue" {
  description         = "Encrypts the queue of node-drainer."
  enable_key_rotation = true
}

resource "aws_kms_key_policy" "queue" {
  key_id = aws_kms_key.queue.key_id
  policy = module.node_drainer.key_policy
}

module "node_drainer" {
  source = "../.."

  cluster_name    = var.cluster_name
  groups          = { workers = data.aws_eks_node_group.workers.resources[0].autoscaling_groups[0].name }
  group_tag_key   = "eks:cluster-name"
  group_tag_value = var.cluster_name
  launch_hooks    = true
  kms_key         = { arn = aws_kms_key.queue.arn }
  trigger         = ["nodegroup"]
}

output "helm_values" {
  description = "Values of the Helm chart."
  value       = module.node_drainer.helm_values
}
