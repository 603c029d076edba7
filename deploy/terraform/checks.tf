# Terraform shows what these checks find as warnings: they keep nobody from applying. agent check looks at the rest.

check "groups" {
  data "aws_autoscaling_groups" "tagged" {
    filter {
      name   = "tag:${local.values.GroupTagKey}"
      values = [var.group_tag_value]
    }
  }

  assert {
    condition     = alltrue([for group in values(var.groups) : contains(data.aws_autoscaling_groups.tagged.names, group)])
    error_message = <<-EOT
      These groups do not exist in this account and Region, or do not have the tag ${local.values.GroupTagKey}=${var.group_tag_value}: ${join(", ", [for group in values(var.groups) : group if !contains(data.aws_autoscaling_groups.tagged.names, group)])}
      The roles permit changes only to groups with this tag. Add it, with its propagation to instances:
      aws autoscaling create-or-update-tags --tags ResourceId=GROUP,ResourceType=auto-scaling-group,Key=${local.values.GroupTagKey},Value=${var.group_tag_value},PropagateAtLaunch=true
    EOT
  }
}

check "heartbeat_timeout" {
  assert {
    condition     = var.heartbeat_timeout >= 120
    error_message = "heartbeat_timeout is ${var.heartbeat_timeout}: while no agent runs for that long, instances terminate with their pods. Set at least 120."
  }
}
