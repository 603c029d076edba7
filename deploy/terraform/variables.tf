variable "cluster_name" {
  description = "The cluster's name."
  type        = string

  validation {
    condition     = can(regex("^[^/[:space:]]+$", var.cluster_name))
    error_message = "cluster_name must not be empty, and have no spaces and slashes: it is the NAME in the tag kubernetes.io/cluster/NAME of the groups."
  }
}

variable "name" {
  description = "Name of the queue, and prefix of the rules' and roles' names. If null: node-drainer- and the cluster's name. Set it if two Regions have clusters of one name."
  type        = string
  default     = null
}

variable "groups" {
  description = "Names of the Auto Scaling groups that get hooks. The keys must be known when planning."
  type        = map(string)
  default     = {}

  validation {
    condition     = alltrue([for group in values(var.groups) : group != ""])
    error_message = "groups has an empty name. Of an EKS managed node group it is aws_eks_node_group.NAME.resources[0].autoscaling_groups[0].name."
  }

  validation {
    condition     = alltrue([for a, group in var.groups : alltrue([for b, other in var.groups : a == b || group != other])])
    error_message = "groups names one Auto Scaling group twice: its hooks would replace each other. Remove one of the keys."
  }
}

variable "group_tag_key" {
  description = "Key of the tag of the groups that the roles may change. If null: kubernetes.io/cluster/ and the cluster's name."
  type        = string
  default     = null
}

variable "group_tag_value" {
  description = "The value of that tag."
  type        = string
  default     = "owned"
}

variable "delivery" {
  description = "Delivery of the hooks' messages: direct, or eventbridge, where hooks also wait if the queue is broken."
  type        = string
  default     = "direct"

  validation {
    condition     = contains(["direct", "eventbridge"], var.delivery)
    error_message = "delivery must be direct or eventbridge."
  }
}

variable "heartbeat_timeout" {
  description = "Seconds that the terminating hook holds an instance if no agent runs. The longest drain is 100 times that."
  type        = number
  default     = 300

  validation {
    condition     = var.heartbeat_timeout >= 30 && var.heartbeat_timeout <= 7200
    error_message = "heartbeat_timeout must be from 30 to 7200."
  }
}

variable "default_result" {
  description = "Result of a termination when that time is over: CONTINUE or ABANDON."
  type        = string
  default     = "CONTINUE"

  validation {
    condition     = contains(["CONTINUE", "ABANDON"], var.default_result)
    error_message = "default_result must be CONTINUE or ABANDON."
  }
}

variable "launch_hooks" {
  description = "Whether the groups also get a launch hook."
  type        = bool
  default     = false
}

variable "launch_heartbeat_timeout" {
  description = "Seconds that the launch hook holds an instance if no agent runs."
  type        = number
  default     = 300

  validation {
    condition     = var.launch_heartbeat_timeout >= 30 && var.launch_heartbeat_timeout <= 7200
    error_message = "launch_heartbeat_timeout must be from 30 to 7200."
  }
}

variable "launch_default_result" {
  description = "Result of a launch when that time is over: CONTINUE, the instance enters service unverified, or ABANDON, the group launches another, which AWS may stop after a day."
  type        = string
  default     = "CONTINUE"

  validation {
    condition     = contains(["CONTINUE", "ABANDON"], var.launch_default_result)
    error_message = "launch_default_result must be CONTINUE or ABANDON."
  }
}

variable "events" {
  description = "Kinds of events without a hook that get an EventBridge rule."
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
      "alarm",
    ], kind)])
    error_message = "events contains an unknown kind; docs/events.md lists them."
  }
}

variable "senders" {
  description = "ARNs of other roles and users that may send to the queue, such as the roles of other hooks."
  type        = list(string)
  default     = []
}

variable "replace" {
  description = "Whether the agent may mark instances unhealthy, for the action replace of an event."
  type        = bool
  default     = false
}

variable "max_receive_count" {
  description = "Deliveries after which SQS moves a message to the dead-letter queue."
  type        = number
  default     = 100

  validation {
    condition     = var.max_receive_count >= 10 && var.max_receive_count <= 1000
    error_message = "max_receive_count must be from 10 to 1000."
  }
}

variable "kms_key" {
  description = "ARN of a customer managed key for the queues, with the policy of the output key_policy."
  type        = object({ arn = string })
  default     = null
}

variable "identity" {
  description = "How pods assume the roles: pod-identity or irsa."
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
  description = "Features of the trigger besides planning: refresh, launch (for refresh), unhealthy, surge, standby, nodegroup, raise-max, suspend, watch. If null, it gets no role."
  type        = set(string)
  default     = null

  validation {
    condition = var.trigger == null ? true : alltrue([
      for feature in var.trigger : contains(["refresh", "launch", "unhealthy", "surge", "standby", "nodegroup", "raise-max", "suspend", "watch"], feature)
    ])
    error_message = "trigger may contain refresh, launch, unhealthy, surge, standby, nodegroup, raise-max, suspend and watch."
  }
}

variable "launch_templates" {
  description = "ARNs of the launch templates, for the trigger's feature launch. If empty: all in this Region."
  type        = list(string)
  default     = []
}

variable "node_roles" {
  description = "ARNs of the roles in their instance profiles, for the same."
  type        = list(string)
  default     = []
}

variable "max_size" {
  description = "The largest maximum size for the trigger's feature raise-max."
  type        = number
  default     = 1000
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
  description = "Tags of all resources."
  type        = map(string)
  default     = {}
}
