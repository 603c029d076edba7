# The queue is in queue.tf, what is sent to it in events.tf and hooks.tf, the roles are in iam.tf. What is allowed, and
# which events are delivered, lies as JSON in ../iam and ../events.

data "aws_caller_identity" "this" {}

data "aws_partition" "this" {}

data "aws_region" "this" {}

locals {
  name      = coalesce(var.name, "node-drainer-${replace(var.cluster_name, ".", "-")}")
  partition = data.aws_partition.this.partition
  region    = data.aws_region.this.id
  account   = data.aws_caller_identity.this.account_id

  # What goes into the places of the documents. The ARNs are put together here, so that a plan shows whole policies.
  values = {
    Account       = local.account
    QueueArn      = "arn:${local.partition}:sqs:${local.region}:${local.account}:${local.name}"
    DeadQueueArn  = "arn:${local.partition}:sqs:${local.region}:${local.account}:${local.name}-dead"
    Rules         = "arn:${local.partition}:events:${local.region}:${local.account}:rule/${local.name}-*"
    Groups        = "arn:${local.partition}:autoscaling:${local.region}:${local.account}:autoScalingGroup:*:autoScalingGroupName/*"
    GroupTagKey   = coalesce(var.group_tag_key, "kubernetes.io/cluster/${var.cluster_name}")
    GroupTagValue = var.group_tag_value
    ClusterArn    = "arn:${local.partition}:eks:${local.region}:${local.account}:cluster/${var.cluster_name}"
    Root          = "arn:${local.partition}:iam::${local.account}:root"
    Namespace     = var.namespace
    KeyArn        = one(var.kms_key[*].arn)
  }
}
