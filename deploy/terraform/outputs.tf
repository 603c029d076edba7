output "helm_values" {
  description = "The values of the Helm chart that follow, as JSON, for helm install --values."
  value = jsonencode(merge({
    aws = { region = local.region }
    config = {
      clusterName = var.cluster_name
      queue       = { url = aws_sqs_queue.this.url }
      hook        = { names = values(local.hooks) }
    }
    serviceAccount = merge(
      { name = var.service_account },
      { for arn in [aws_iam_role.agent.arn] : "roleARN" => arn if var.identity == "irsa" },
    )
    }, {
    for user in var.trigger == null ? [] : ["trigger", "watch"] : user => { serviceAccount = merge(
      { name = var.trigger_service_account },
      { for arn in aws_iam_role.trigger[*].arn : "roleARN" => arn if var.identity == "irsa" },
    ) }
  }))
}

output "queue_url" {
  description = "QUEUE_URL of the agent."
  value       = aws_sqs_queue.this.url
}

output "queue_arn" {
  description = "The queue's ARN, as the target of other hooks."
  value       = aws_sqs_queue.this.arn
}

output "hook_names" {
  description = "HOOK_NAMES of the agent: add those of other hooks."
  value       = join(",", values(local.hooks))
}

output "dead_letter_queue_arn" {
  description = "The dead-letter queue's ARN, for an alarm."
  value       = aws_sqs_queue.dead.arn
}

output "agent_role_arn" {
  description = "The agent's role: for IRSA, the annotation eks.amazonaws.com/role-arn of its ServiceAccount."
  value       = aws_iam_role.agent.arn
}

output "trigger_role_arn" {
  description = "The trigger's role, or null."
  value       = one(aws_iam_role.trigger[*].arn)
}

output "hook_role_arn" {
  description = "The role with which Auto Scaling sends, for other hooks; null with eventbridge."
  value       = one(aws_iam_role.hooks[*].arn)
}

output "agent_policy" {
  description = "All permissions of the agent in one document, for your own role."
  value = jsonencode({
    Version   = "2012-10-17"
    Statement = flatten([for policy in values(local.agent_policies) : jsondecode(policy).Statement])
  })
}

output "trigger_policy" {
  description = "The same of the trigger, for example in CI."
  value = jsonencode({
    Version   = "2012-10-17"
    Statement = flatten([for policy in values(local.trigger_policies) : jsondecode(policy).Statement])
  })
}

output "key_policy" {
  description = "The policy that kms_key needs."
  value       = templatefile("${path.module}/../iam/key.json", local.values)
}
