variable "cluster_name" {
  description = "The cluster: CLUSTER_NAME of the agent, and the EKS cluster for Pod Identity."
  type        = string

  validation {
    condition     = length(var.cluster_name) > 0
    error_message = "cluster_name must not be empty."
  }
}

variable "name" {
  description = "What the queue, the rules and the roles are called. If null: node-drainer- and the name of the cluster, with hyphens for its dots."
  type        = string
  default     = null
}

variable "groups" {
  description = "Auto Scaling groups that get hooks, by name. The keys are yours, and must be known when planning."
  type        = map(string)
  default     = {}
}

variable "group_tag_key" {
  description = "The tag of the cluster's groups. No other group can be changed. If null: kubernetes.io/cluster/ and the name of the cluster."
  type        = string
  default     = null
}

variable "group_tag_value" {
  description = "The value of that tag."
  type        = string
  default     = "owned"
}

variable "delivery" {
  description = "How the hooks tell: direct, by Auto Scaling to the queue; or eventbridge, by a rule for the groups."
  type        = string
  default     = "direct"

  validation {
    condition     = contains(["direct", "eventbridge"], var.delivery)
    error_message = "delivery must be direct or eventbridge."
  }
}

variable "heartbeat_timeout" {
  description = "Seconds for which the terminating hook holds an instance if no agent runs. The longest drain is 100 times that."
  type        = number
  default     = 300

  validation {
    condition     = var.heartbeat_timeout >= 30 && var.heartbeat_timeout <= 7200
    error_message = "heartbeat_timeout must be from 30 to 7200."
  }
}

variable "default_result" {
  description = "What becomes of a termination when that time is over: CONTINUE or ABANDON. Either way the instance goes."
  type        = string
  default     = "CONTINUE"

  validation {
    condition     = contains(["CONTINUE", "ABANDON"], var.default_result)
    error_message = "default_result must be CONTINUE or ABANDON."
  }
}

variable "launch_hooks" {
  description = "Whether the groups get a hook for launches too, and the agent what it needs for them."
  type        = bool
  default     = false
}

variable "launch_heartbeat_timeout" {
  description = "Seconds for which the launch hook holds an instance if no agent runs."
  type        = number
  default     = 300

  validation {
    condition     = var.launch_heartbeat_timeout >= 30 && var.launch_heartbeat_timeout <= 7200
    error_message = "launch_heartbeat_timeout must be from 30 to 7200."
  }
}

variable "launch_default_result" {
  description = "What becomes of a launch when that time is over: ABANDON or CONTINUE."
  type        = string
  default     = "ABANDON"

  validation {
    condition     = contains(["CONTINUE", "ABANDON"], var.launch_default_result)
    error_message = "launch_default_result must be CONTINUE or ABANDON."
  }
}

variable "events" {
  description = "Kinds of events without a hook that get a rule."
  type        = set(string)
  default = [
    "spot-interruption",
    "state-change",
    "scheduled-change",
    "capacity-reservation-interruption",
    "capacity-block-expiration",
  ]

  validation {
    condition = alltrue([for kind in var.events : contains([
      "spot-interruption",
      "rebalance-recommendation",
      "state-change",
      "scheduled-change",
      "capacity-reservation-interruption",
      "capacity-block-expiration",
    ], kind)])
    error_message = "events has a kind that docs/events.md does not know."
  }
}

variable "replace" {
  description = "Whether the agent may mark instances unhealthy, for the action replace of an event."
  type        = bool
  default     = false
}

variable "max_receive_count" {
  description = "Deliveries after which a message goes to the dead-letter queue. A long drain takes many; that is no failure."
  type        = number
  default     = 100

  validation {
    condition     = var.max_receive_count >= 10 && var.max_receive_count <= 1000
    error_message = "max_receive_count must be from 10 to 1000."
  }
}

variable "kms_key" {
  description = "A customer managed key for the queues, by its arn, with the policy of the output key_policy. If null, SQS encrypts with its own."
  type        = object({ arn = string })
  default     = null
}

variable "identity" {
  description = "How pods get the roles: pod-identity, which is associated here, or irsa."
  type        = string
  default     = "pod-identity"

  validation {
    condition     = contains(["pod-identity", "irsa"], var.identity)
    error_message = "identity must be pod-identity or irsa."
  }
}

variable "oidc_provider_arn" {
  description = "The cluster's OIDC provider, for irsa."
  type        = string
  default     = null
}

variable "namespace" {
  description = "The namespace of the agent and the trigger."
  type        = string
  default     = "kube-system"
}

variable "service_account" {
  description = "The ServiceAccount of the agent."
  type        = string
  default     = "node-drainer"
}

variable "trigger" {
  description = "What the trigger may do besides planning: refresh, unhealthy, surge, suspend. If null, it gets no role."
  type        = set(string)
  default     = null

  validation {
    condition = var.trigger == null ? true : alltrue([
      for feature in var.trigger : contains(["refresh", "unhealthy", "surge", "suspend"], feature)
    ])
    error_message = "trigger may have refresh, unhealthy, surge and suspend."
  }
}

variable "trigger_service_account" {
  description = "The ServiceAccount of the trigger."
  type        = string
  default     = "node-drainer-trigger"
}

variable "permissions_boundary_arn" {
  description = "A permissions boundary for the roles."
  type        = string
  default     = null
}

variable "tags" {
  description = "Tags of all that is made here."
  type        = map(string)
  default     = {}
}
