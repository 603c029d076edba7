# The agent alone, with IRSA: it drains what a group terminates, what Spot takes back and what maintenance announces.

variable "cluster_name" {
  type = string
}

variable "oidc_provider_arn" {
  type = string
}

variable "groups" {
  type = map(string)
}

module "node_drainer" {
  source = "../.."

  cluster_name      = var.cluster_name
  identity          = "irsa"
  oidc_provider_arn = var.oidc_provider_arn
  groups            = var.groups # { workers = aws_autoscaling_group.workers.name }
}

output "agent" {
  description = "What the agent needs to know."
  value = {
    queue_url = module.node_drainer.queue_url
    role_arn  = module.node_drainer.agent_role_arn
  }
}
