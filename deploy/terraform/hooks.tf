resource "aws_autoscaling_lifecycle_hook" "terminating" {
  for_each = var.groups

  name                    = local.hooks.terminating
  autoscaling_group_name  = each.value
  lifecycle_transition    = "autoscaling:EC2_INSTANCE_TERMINATING"
  heartbeat_timeout       = var.heartbeat_timeout
  default_result          = var.default_result
  notification_target_arn = var.delivery == "direct" ? aws_sqs_queue.this.arn : null
  role_arn                = var.delivery == "direct" ? aws_iam_role.hooks[0].arn : null

  # Auto Scaling sends a test message when a hook is created, and refuses the hook if the role does not permit it.
  depends_on = [aws_iam_role_policy.hooks]
}

resource "aws_autoscaling_lifecycle_hook" "launching" {
  for_each = var.launch_hooks ? var.groups : {}

  name                    = local.hooks.launching
  autoscaling_group_name  = each.value
  lifecycle_transition    = "autoscaling:EC2_INSTANCE_LAUNCHING"
  heartbeat_timeout       = var.launch_heartbeat_timeout
  default_result          = var.launch_default_result
  notification_target_arn = var.delivery == "direct" ? aws_sqs_queue.this.arn : null
  role_arn                = var.delivery == "direct" ? aws_iam_role.hooks[0].arn : null

  depends_on = [aws_iam_role_policy.hooks]
}

resource "aws_iam_role" "hooks" {
  count = var.delivery == "direct" ? 1 : 0

  name                 = "${local.name}-hooks"
  description          = "Auto Scaling sends the messages of its hooks to node-drainer with this role."
  assume_role_policy   = templatefile("${path.module}/../iam/trust-hooks.json", local.values)
  permissions_boundary = var.permissions_boundary_arn
  tags                 = var.tags
}

resource "aws_iam_role_policy" "hooks" {
  for_each = toset(var.delivery != "direct" ? [] : var.kms_key == null ? ["hooks"] : ["hooks", "hooks-key"])

  name   = each.key
  role   = aws_iam_role.hooks[0].name
  policy = templatefile("${path.module}/../iam/${each.key}.json", local.values)
}
