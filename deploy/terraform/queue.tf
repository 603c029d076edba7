# A message must outlive the longest drain, and the time without an agent. 14 days are the maximum.
locals {
  retention = 14 * 24 * 60 * 60
}

# The agent sets the visibility timeout with each receive, so the queue's own does not matter.
resource "aws_sqs_queue" "this" {
  name                      = local.name
  message_retention_seconds = local.retention
  max_message_size          = 262144 # EventBridge's limit
  receive_wait_time_seconds = 20
  sqs_managed_sse_enabled   = var.kms_key == null ? true : null
  kms_master_key_id         = one(var.kms_key[*].arn)
  redrive_policy = jsonencode({
    deadLetterTargetArn = aws_sqs_queue.dead.arn
    maxReceiveCount     = var.max_receive_count
  })
  tags = var.tags

  lifecycle {
    precondition {
      condition     = can(regex("^[0-9A-Za-z_-]{1,52}$", local.name))
      error_message = "name must consist of at most 52 letters, digits, hyphens and underscores: the names of rules begin with it."
    }
  }
}

resource "aws_sqs_queue_policy" "this" {
  queue_url = aws_sqs_queue.this.id
  policy    = templatefile("${path.module}/../iam/queue.json", local.values)
}

resource "aws_sqs_queue" "dead" {
  name                      = "${local.name}-dead"
  message_retention_seconds = local.retention
  sqs_managed_sse_enabled   = var.kms_key == null ? true : null
  kms_master_key_id         = one(var.kms_key[*].arn)
  tags                      = var.tags
}

resource "aws_sqs_queue_policy" "dead" {
  queue_url = aws_sqs_queue.dead.id
  policy    = templatefile("${path.module}/../iam/queue-dead.json", local.values)
}

resource "aws_sqs_queue_redrive_allow_policy" "dead" {
  queue_url = aws_sqs_queue.dead.id
  redrive_allow_policy = jsonencode({
    redrivePermission = "byQueue"
    sourceQueueArns   = [aws_sqs_queue.this.arn]
  })
}
