locals {
  # For hooks without a target, of these groups and names only: the agent returns messages about other clusters' hooks to
  # the queue, and EventBridge reports the hooks of all tools.
  lifecycle_rule = {
    source        = ["aws.autoscaling"]
    "detail-type" = ["EC2 Instance-terminate Lifecycle Action", "EC2 Instance-launch Lifecycle Action"]
    detail        = { AutoScalingGroupName = sort(values(var.groups)), LifecycleHookName = values(local.hooks) }
  }

  rules = merge(
    { for kind in var.events : kind => file("${path.module}/../events/${kind}.json") },
    { for kind in ["lifecycle"] : kind => jsonencode(local.lifecycle_rule) if var.delivery == "eventbridge" },
  )
}

# A rule's name may have at most 64 characters, so it contains one word of the kind. The queue's policy lists all of them.
resource "aws_cloudwatch_event_rule" "this" {
  for_each = local.rules

  name          = "${local.name}-${regex("^(?:capacity-)?([a-z]+)", each.key)[0]}"
  description   = "Sends ${each.key} events to node-drainer."
  event_pattern = each.value
  tags          = var.tags
}

resource "aws_cloudwatch_event_target" "this" {
  for_each = local.rules

  rule      = aws_cloudwatch_event_rule.this[each.key].name
  target_id = "queue"
  arn       = aws_sqs_queue.this.arn
}
