# The agent with IRSA: it drains for scale-ins, Spot interruptions and maintenance.

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

output "helm_values" {
  description = "Values of the Helm chart."
  value       = module.node_drainer.helm_values
}
