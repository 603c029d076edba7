# queue.tf has the queue, events.tf and hooks.tf what sends to it, iam.tf the roles. The policies and event patterns are
# JSON in ../iam and ../events.

data "aws_caller_identity" "this" {}

data "aws_partition" "this" {}

data "aws_region" "this" {}

locals {
  hooks = { terminating = "node-drainer-terminating", launching = "node-drainer-launching" }

  name      = coalesce(var.name, "node-drainer-${replace(var.cluster_name, ".", "-")}")
  partition = data.aws_partition.this.partition
  region    = data.aws_region.this.id
  account   = data.aws_caller_identity.this.account_id

  # The values for the documents' placeholders. The ARNs are computed here, so that a plan shows complete policies.
  values = {
    Account       = local.account
    QueueArn      = "arn:${local.partition}:sqs:${local.region}:${local.account}:${local.name}"
    DeadQueueArn  = "arn:${local.partition}:sqs:${local.region}:${local.account}:${local.name}-dead"
    RulePrefix    = "arn:${local.partition}:events:${local.region}:${local.account}:rule/${local.name}"
    Senders       = join("\", \"", concat(["arn:${local.partition}:iam::${local.account}:role/${local.name}-hooks"], var.senders))
    Instances     = "arn:${local.partition}:ec2:${local.region}:${local.account}:instance/*"
    Groups        = "arn:${local.partition}:autoscaling:${local.region}:${local.account}:autoScalingGroup:*:autoScalingGroupName/*"
    GroupTagKey   = coalesce(var.group_tag_key, "kubernetes.io/cluster/${var.cluster_name}")
    GroupTagValue = var.group_tag_value
    ClusterArn    = "arn:${local.partition}:eks:${local.region}:${local.account}:cluster/${var.cluster_name}"
    Nodegroups    = "arn:${local.partition}:eks:${local.region}:${local.account}:nodegroup/${var.cluster_name}/*/*"
    Root          = "arn:${local.partition}:iam::${local.account}:root"
    Namespace     = var.namespace
    KeyArn        = one(var.kms_key[*].arn)

    LaunchTemplates = join("\", \"", coalescelist(var.launch_templates, ["arn:${local.partition}:ec2:${local.region}:${local.account}:launch-template/*"]))
    NodeRoles       = join("\", \"", var.node_roles)
    MaxSize         = var.max_size
    Images          = "arn:${local.partition}:ec2:${local.region}::image/*"
    ImageParameters = "arn:${local.partition}:ssm:${local.region}::parameter/aws/service/*"
  }
}
