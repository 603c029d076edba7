output "queue_url" {
  description = "QUEUE_URL of the agent."
  value       = aws_sqs_queue.this.url
}

output "queue_arn" {
  description = "The queue, as the target of hooks that are made elsewhere."
  value       = aws_sqs_queue.this.arn
}

output "dead_letter_queue_arn" {
  description = "The queue for what the agent refuses, for an alarm."
  value       = aws_sqs_queue.dead.arn
}

output "agent_role_arn" {
  description = "The role of the agent: for IRSA, the annotation eks.amazonaws.com/role-arn of its ServiceAccount."
  value       = aws_iam_role.agent.arn
}

output "trigger_role_arn" {
  description = "The role of the trigger; null if it gets none."
  value       = one(aws_iam_role.trigger[*].arn)
}

output "hook_role_arn" {
  description = "The role with which Auto Scaling sends, for hooks that are made elsewhere; null for eventbridge."
  value       = one(aws_iam_role.hooks[*].arn)
}

output "agent_policy" {
  description = "All that the agent may do, in one document, for a role of your own."
  value = jsonencode({
    Version   = "2012-10-17"
    Statement = flatten([for policy in values(local.agent_policies) : jsondecode(policy).Statement])
  })
}

output "trigger_policy" {
  description = "All that the trigger may do, in one document, for a role of your own, as in CI."
  value = jsonencode({
    Version   = "2012-10-17"
    Statement = flatten([for policy in values(local.trigger_policies) : jsondecode(policy).Statement])
  })
}

output "key_policy" {
  description = "What the policy of kms_key needs: the policies of this account count, and EventBridge may send."
  value       = templatefile("${path.module}/../iam/key.json", local.values)
}
