locals {
  # One document for each selected feature. docs/iam.md has the purpose of each action.
  agent_policies = { for feature, granted in {
    queue               = true
    terminations        = true
    check               = true
    launches            = var.launch_hooks
    "spot-interruption" = contains(var.events, "spot-interruption")
    "scheduled-change"  = contains(var.events, "scheduled-change")
    alarm               = contains(var.events, "alarm")
    replace             = var.replace
    key                 = var.kms_key != null
  } : feature => templatefile("${path.module}/../iam/agent-${feature}.json", local.values) if granted }

  trigger_policies = { for feature in var.trigger == null ? [] : setunion(["plan"], var.trigger) :
    feature => templatefile("${path.module}/../iam/trigger-${feature}.json", local.values)
  }

  oidc_provider_arn = var.oidc_provider_arn == null ? "" : var.oidc_provider_arn

  # Who may assume a role: pods of one ServiceAccount.
  trust = { for account in [var.service_account, var.trigger_service_account] : account => templatefile(
    "${path.module}/../iam/trust-${var.identity}.json",
    merge(local.values, {
      ServiceAccount  = account
      OidcProviderArn = local.oidc_provider_arn
      OidcProvider    = element(split("oidc-provider/", local.oidc_provider_arn), 1)
    })
  ) }
}

resource "aws_iam_role" "agent" {
  name                 = local.name
  description          = "Permissions of the agent of node-drainer."
  assume_role_policy   = local.trust[var.service_account]
  permissions_boundary = var.permissions_boundary_arn
  tags                 = var.tags

  lifecycle {
    precondition {
      condition     = (var.identity == "irsa") == (var.oidc_provider_arn != null)
      error_message = "identity irsa requires oidc_provider_arn, and pod-identity must not have it."
    }
  }
}

resource "aws_iam_role_policy" "agent" {
  for_each = local.agent_policies

  name   = each.key
  role   = aws_iam_role.agent.name
  policy = each.value
}

resource "aws_eks_pod_identity_association" "agent" {
  count = var.identity == "pod-identity" ? 1 : 0

  cluster_name    = var.cluster_name
  namespace       = var.namespace
  service_account = var.service_account
  role_arn        = aws_iam_role.agent.arn
  tags            = var.tags
}

resource "aws_iam_role" "trigger" {
  count = var.trigger == null ? 0 : 1

  name                 = "${local.name}-trigger"
  description          = "Permissions of the trigger of node-drainer."
  assume_role_policy   = local.trust[var.trigger_service_account]
  permissions_boundary = var.permissions_boundary_arn
  tags                 = var.tags

  lifecycle {
    precondition {
      condition     = !can(local.trigger_policies["launch"]) || join("", var.node_roles) != ""
      error_message = "the trigger's feature launch requires node_roles."
    }
  }
}

resource "aws_iam_role_policy" "trigger" {
  for_each = local.trigger_policies

  name   = each.key
  role   = aws_iam_role.trigger[0].name
  policy = each.value
}

resource "aws_eks_pod_identity_association" "trigger" {
  count = var.trigger != null && var.identity == "pod-identity" ? 1 : 0

  cluster_name    = var.cluster_name
  namespace       = var.namespace
  service_account = var.trigger_service_account
  role_arn        = aws_iam_role.trigger[0].arn
  tags            = var.tags
}
