#!/usr/bin/env bash
# Asks AWS what its documentation does not say, with the AWS CLI. docs/testing.md describes it.
set -uo pipefail

usage() {
  cat <<'TEXT'
probe.sh prints the experiments. With --run it executes them, in your account, with the AWS CLI:

  probe.sh --run --group NAME --role ARN --yes [--only 1,7a] [--template ID] [--out FILE]

  --group     an Auto Scaling group for tests alone: the probe terminates its instances, one at a time
  --role      the role with which Auto Scaling sends to queues whose names begin with node-drainer-probe
  --template  a launch template with two versions, for experiment 16
  --only      the experiments to run
  --out       the results, separated by tabs; probe-results.tsv if not given
  --patience  how many seconds an instance must wait to count as waiting; 40 if not given
  --yes       really do it
TEXT
}

# id | question | what node-drainer does if yes | what it does if no
experiments() {
  cat <<'TEXT'
1|Does put-lifecycle-hook send the test message that we parse?|The agent deletes it.|It is refused as malformed, and NodeDrainerMessagesRefused fires: send us the body.
3a|Can a refresh be rolled back within two seconds of its start?|trigger rollback rolls it back.|trigger rollback cancels it.
3b|Does the second of two cancellations fail as ActiveInstanceRefreshNotFound?|trigger cancel counts it as done.|trigger cancel reports an unknown error.
5|Is a refresh Successful only after the terminating hooks of the old instances?|trigger waits for the drains twice, which costs nothing.|trigger needs its own wait for old instances, which it has (--until drained).
6|Does cancel-instance-refresh return while a hook holds an instance?|trigger cancel is quick.|trigger cancel waits for whole drains; --on-conflict cancel does not, by WaitForTransitioningInstances=false.
7a|Does a hook wait if its queue has been deleted?|The resync finds the instance, and the agent drains it.|The instance terminates with its pods; NodeDrainerTerminationsUnannounced fires. Use hooks without a target.
7b|Does a hook wait if the queue's policy denies the role?|As 7a.|As 7a.
7c|Does a hook without a target, and without a rule, wait?|The resync finds the instance: the delivery eventbridge is the safer one.|No delivery is safe without its queue.
8a|Is a second completion refused as ValidationError, "No active Lifecycle Action found"?|The agent counts the action as done.|The agent retries it until the global timeout.
8b|Does the token count, if the token is wrong and the instance is right?|A forged token completes nothing.|The agent must not send both.
8c|Is a heartbeat after the completion refused?|The agent stops its heartbeats at this error.|The agent relies on the instance's state alone.
10a|Can a mark be undone: Unhealthy, and then Healthy?|trigger must look again before it counts a marked instance as leaving.|A mark is final.
10b|Is a marked instance left alone while ReplaceUnhealthy is suspended?|trigger plan must warn of suspended processes.|Suspended processes do not matter to marks.
16|Does resolving several versions of a launch template in one call fail?|The trigger asks for one at a time.|It could ask for all in one call.
18a|Does the queue's policy let the hooks' role through its Deny?|The policy stays.|No message arrives: add the role to senders, and tell us.
18b|Does the Deny keep the caller of this probe from sending?|Nobody else can forge messages.|Someone with sqs:* can forge them.
18c|Does the Deny let EventBridge through?|The policy stays.|Spot warnings are lost: tell us, and remove the statement OnlyServicesAndTheseSend.
21|Does a launch name each of the two changes of the desired capacity before it as its cause?|The next run takes back the surge of a trigger that was killed, whatever has changed the capacity since.|It leaves the surge, if the capacity was changed again before anything was launched.
20|What are the SenderIds of the hooks' role and of EventBridge?|The agent logs them with unconfirmed messages.|
TEXT
}

# Experiments that need a setup of their own or destroy the group. They are printed, and not run.
by_hand() {
  cat <<'TEXT'
2|Does start-instance-refresh need the permissions of the feature launch? Run it with the role of the trigger, with and without --desired-configuration.|docs/iam.md is right.|Where it does not, mode refresh needs no permission to launch.
4|With max = desired = 2 at 100/150: does a refresh launch a third instance?|The trigger's preflight is right.|The preflight must refuse.
7d|As 7a with ABANDON and instance retention: is the instance kept?|ABANDON with retention is the safest installation.|Nothing saves the pods.
9|Does terminating a retained instance run the terminating hook again?|The agent drains it again, at once.|Nothing happens.
11|A root-volume refresh: bodies and states.|Send us both messages.|
12|A warm pool with reuse: does ABANDON of a return terminate the instance?|The agent never abandons a return.|
13|Does deleting a group by force run its hooks?|The agent drains its nodes.|Their pods terminate with them, as documented.
14|A Spot interruption with FIS: the Spot request's status every second, and errors after the end.|Send us the codes: the agent counts those that it sees.|
15|Attribute-based requirements: does a refresh with SkipMatching fail?|The preflight is right to refuse.|The preflight refuses in vain.
17|A refresh with an alarm in INSUFFICIENT_DATA: does it start?|docs/rollout-modes.md is wrong.|docs/rollouts.md is right.
22|UpdateNodegroupVersion to one minor version below the cluster's, with nodes of the cluster's: does EKS accept it, and of which type is the update?|The preflight is right to warn.|The preflight must refuse.
23|Enable the account setting launchBeforeTerminate, and start a refresh without preferences: which MaxHealthyPercentage does describe-instance-refreshes show?|110: the preflight is right.|pkg/refresh assumes another maximum.
TEXT
}

list() {
  local id question yes no
  while IFS='|' read -r id question yes no; do
    printf '%-4s %s\n     yes: %s\n' "$id" "$question" "$yes"
    [ -z "$no" ] || printf '     no:  %s\n' "$no"
  done
}

run='' group='' role='' yes='' only='' template='' out=probe-results.tsv patience=40
while [ $# -gt 0 ]; do
  case $1 in
    --run) run=1 ;;
    --yes) yes=1 ;;
    --group | --role | --only | --template | --out | --patience)
      [ $# -gt 1 ] || { echo "probe: $1 needs a value" >&2; exit 2; }
      printf -v "${1#--}" %s "$2"
      shift
      ;;
    *) usage; [ "$1" = --help ] && exit 0; echo "probe: unknown option $1" >&2; exit 2 ;;
  esac
  shift
done
if [ -z "$run" ]; then
  echo 'With PROBE_RUN=1, make probe runs these experiments against a group that you name. See docs/testing.md.'
  experiments | list
  printf '\nBy hand:\n\n'
  by_hand | list
  exit 0
fi
if [ -z "$group" ] || [ -z "$role" ]; then usage >&2; echo 'probe: --group and --role are required' >&2; exit 2; fi
if [ -z "$yes" ]; then
  echo "probe: this terminates instances of the group $group, and puts a hook on it. Add --yes to do it." >&2
  exit 2
fi

log=$out.log
name=node-drainer-probe-$$
hook=node-drainer-probe
url='' arn='' rule='' left=0
: >"$log" || exit 2
printf 'id\tanswer\tseconds\n' >"$out"

# call runs the AWS CLI. The log gets the call, and its error.
call() {
  echo "+ aws $*" >>"$log"
  aws "$@" --output "${format:-json}" 2>>"$log"
}
text() { format=text call "$@"; }
asg() { local verb=$1; shift; call autoscaling "$verb" --auto-scaling-group-name "$group" "$@"; }

# failed prints the error of a call that must fail: its code, and the text. Nothing if it succeeds.
failed() {
  echo "+ aws $*" >>"$log"
  aws "$@" 2>&1 >/dev/null | tr '\n' ' ' | sed 's/^ *//; s/ *$//' | tee -a "$log"
  echo >>"$log"
}

# new_queue makes the queue again, after an experiment that broke it.
new_queue() {
  [ -z "$url" ] || call sqs delete-queue --queue-url "$url" >/dev/null
  name=node-drainer-probe-$$-$((++queues))
  url=$(text sqs create-queue --queue-name "$name" --query QueueUrl) || return 1
  arn=$(text sqs get-queue-attributes --queue-url "$url" --attribute-names QueueArn --query Attributes.QueueArn)
}
queues=0
unsupported='not supported here, see the log'

# policy sets a policy of the queue: its statements.
policy() {
  local document="{\"Version\":\"2012-10-17\",\"Statement\":[$1]}"
  call sqs set-queue-attributes --queue-url "$url" --attributes "{\"Policy\":\"${document//\"/\\\"}\"}" >/dev/null
}
deny_others() {
  echo "{\"Effect\":\"Deny\",\"Principal\":\"*\",\"Action\":\"sqs:SendMessage\",\"Resource\":\"$arn\",\"Condition\":{\"BoolIfExists\":{\"aws:PrincipalIsAWSService\":\"false\"},\"ArnNotEqualsIfExists\":{\"aws:PrincipalArn\":[\"$role\"]}}}"
}

# put_hook puts the hook, with the queue as its target or with none.
put_hook() {
  local target=()
  [ "$1" = none ] || target=(--notification-target-arn "$arn" --role-arn "$role")
  asg put-lifecycle-hook --lifecycle-hook-name $hook --lifecycle-transition autoscaling:EC2_INSTANCE_TERMINATING \
    --heartbeat-timeout 300 --default-result CONTINUE "${target[@]}" >/dev/null
}
remove_hook() { asg delete-lifecycle-hook --lifecycle-hook-name $hook >/dev/null; }
receive() {
  text sqs receive-message --queue-url "$url" --wait-time-seconds 10 --visibility-timeout 0 \
    --message-system-attribute-names SenderId --query "$1"
}

state() { text autoscaling describe-auto-scaling-instances --instance-ids "$1" --query 'AutoScalingInstances[0].LifecycleState'; }
in_service() {
  text autoscaling describe-auto-scaling-groups --auto-scaling-group-names "$group" \
    --query "AutoScalingGroups[0].Instances[?LifecycleState=='InService']|[0].InstanceId"
}
refresh_status() { format=text asg describe-instance-refreshes --max-records 1 --query 'InstanceRefreshes[0].Status'; }

# wait_for SECONDS WANTED COMMAND...: until the command prints a text that fits.
wait_for() {
  local until=$((SECONDS + $1)) wanted=$2
  shift 2
  while ! [[ "$("$@")" =~ $wanted ]]; do
    [ $SECONDS -lt $until ] || return 1
    sleep 1
  done
}

# terminate ends an instance that is in service, and prints its id when a hook holds it, or when it has gone.
terminate() {
  local id
  wait_for 600 '^i-' in_service || return 1
  id=$(in_service)
  call autoscaling terminate-instance-in-auto-scaling-group --instance-id "$id" --no-should-decrement-desired-capacity >/dev/null
  wait_for 600 '^(Terminating:|Terminated|None)' state "$id"
  echo "$id"
}
complete() {
  call autoscaling complete-lifecycle-action --auto-scaling-group-name "$group" --lifecycle-hook-name $hook \
    --lifecycle-action-result CONTINUE --instance-id "$1" >/dev/null
}

# waits prints whether the hook holds a terminating instance for as long as the patience lasts.
waits() {
  local id begin
  id=$(terminate)
  begin=$SECONDS
  if wait_for "$patience" '^(Terminating:Proceed|Terminated|None)' state "$id"; then
    echo "no: it ended after $((SECONDS - begin)) s"
  else
    echo "yes: it still waited after $patience s"
    complete "$id"
  fi
}

probe_1() {
  put_hook queue || { echo 'no: put-lifecycle-hook failed'; return; }
  case $(receive 'Messages[0].Body' | tee -a "$log") in
    *autoscaling:TEST_NOTIFICATION*) echo yes ;;
    *) echo 'no: see the log' ;;
  esac
}
start_refresh() { asg start-instance-refresh --preferences '{"MinHealthyPercentage":0,"SkipMatching":false}' "$@" >/dev/null; }
# finish_refresh cancels a refresh, and waits until it has ended. It completes what the hook holds.
finish_refresh() {
  asg cancel-instance-refresh >/dev/null
  wait_for 900 'Cancelled|Successful|Failed|None' let_go
}
let_go() {
  local id
  id=$(held)
  [ "$id" = None ] || complete "$id"
  refresh_status
}
probe_3a() {
  [ -n "$template" ] || { echo 'skipped: --template'; return; }
  local error
  put_hook none # It delays the refresh.
  start_refresh --desired-configuration "{\"LaunchTemplate\":{\"LaunchTemplateId\":\"$template\",\"Version\":\"2\"}}" ||
    { echo "$unsupported"; return; }
  error=$(failed autoscaling rollback-instance-refresh --auto-scaling-group-name "$group")
  [ -n "$error" ] && echo "no: $error" || echo yes
  finish_refresh
}
probe_3b() {
  local error
  start_refresh || { echo "$unsupported"; return; }
  finish_refresh
  error=$(failed autoscaling cancel-instance-refresh --auto-scaling-group-name "$group")
  [[ $error == *ActiveInstanceRefreshNotFound* ]] && echo yes || echo "no: ${error:-it succeeded}"
}
probe_5() {
  local id
  put_hook none
  start_refresh || { echo "$unsupported"; return; }
  wait_for 900 '^i-' held || { echo 'no instance was held'; return; }
  id=$(held)
  if wait_for "$patience" Successful refresh_status; then echo "no: $id still waited"; else echo "yes: it was $(refresh_status) for $patience s"; fi
}
held() {
  text autoscaling describe-auto-scaling-groups --auto-scaling-group-names "$group" \
    --query "AutoScalingGroups[0].Instances[?LifecycleState=='Terminating:Wait']|[0].InstanceId"
}
probe_6() {
  asg cancel-instance-refresh >/dev/null || { echo 'no refresh was running'; return; }
  if wait_for "$patience" Cancelled refresh_status; then echo yes; else echo "no: it was $(refresh_status) for $patience s"; fi
  finish_refresh
}
probe_7a() { new_queue && put_hook queue && call sqs delete-queue --queue-url "$url" >/dev/null; url=''; waits; }
probe_7b() {
  new_queue && put_hook queue
  policy "{\"Effect\":\"Deny\",\"Principal\":\"*\",\"Action\":\"sqs:SendMessage\",\"Resource\":\"$arn\"}"
  waits
}
probe_7c() { remove_hook; put_hook none; waits; }
probe_8a() {
  local id error
  new_queue && put_hook queue
  id=$(terminate) && complete "$id"
  error=$(failed autoscaling complete-lifecycle-action --auto-scaling-group-name "$group" --lifecycle-hook-name $hook \
    --lifecycle-action-result CONTINUE --instance-id "$id")
  [[ $error == *ValidationError*"No active Lifecycle Action found"* ]] && echo yes || echo "no: ${error:-it succeeded}"
}
probe_8b() {
  local id error
  id=$(terminate)
  error=$(failed autoscaling complete-lifecycle-action --auto-scaling-group-name "$group" --lifecycle-hook-name $hook \
    --lifecycle-action-result CONTINUE --instance-id "$id" --lifecycle-action-token 00000000-0000-4000-8000-000000000000)
  [ -n "$error" ] && echo yes || echo 'no: it was completed'
  complete "$id"
}
probe_8c() {
  local id error
  id=$(terminate) && complete "$id"
  error=$(failed autoscaling record-lifecycle-action-heartbeat --auto-scaling-group-name "$group" \
    --lifecycle-hook-name $hook --instance-id "$id")
  [ -n "$error" ] && echo "yes: $error" || echo no
}
mark() { call autoscaling set-instance-health --instance-id "$1" --health-status "$2" --no-should-respect-grace-period >/dev/null; }
probe_10b() {
  local id
  asg suspend-processes --scaling-processes ReplaceUnhealthy >/dev/null
  wait_for 600 '^i-' in_service
  id=$(in_service)
  mark "$id" Unhealthy
  if wait_for "$patience" '^(Terminat|None)' state "$id"; then echo "no: it was $(state "$id")"; else echo yes; fi
  mark "$id" Healthy
  asg resume-processes --scaling-processes ReplaceUnhealthy >/dev/null
}
probe_10a() {
  local id
  wait_for 600 '^i-' in_service
  id=$(in_service)
  mark "$id" Unhealthy && mark "$id" Healthy
  if wait_for "$patience" '^(Terminat|None)' state "$id"; then echo "no: it was $(state "$id")"; complete "$id"; else echo yes; fi
}
probe_16() {
  [ -n "$template" ] || { echo 'skipped: --template'; return; }
  local error
  error=$(failed ec2 describe-launch-template-versions --launch-template-id "$template" --versions 1 2 --resolve-alias)
  [ -n "$error" ] && echo "yes: $error" || echo no
}
probe_21() {
  local desired most cause
  desired=$(capacity DesiredCapacity)
  most=$(capacity MaxSize)
  [ $((desired + 2)) -le "$most" ] || { echo "skipped: the maximum, $most, must be two more than is desired"; return; }
  asg suspend-processes --scaling-processes Launch >/dev/null
  asg set-desired-capacity --desired-capacity $((desired + 1)) >/dev/null
  asg set-desired-capacity --desired-capacity $((desired + 2)) >/dev/null
  asg resume-processes --scaling-processes Launch >/dev/null
  wait_for 600 "to $((desired + 2))" cause
  cause=$(cause)
  asg set-desired-capacity --desired-capacity "$desired" >/dev/null
  [[ $cause == *"from $desired to $((desired + 1))."*"from $((desired + 1)) to $((desired + 2))."* ]] && echo yes || echo "no: $cause"
}
capacity() { text autoscaling describe-auto-scaling-groups --auto-scaling-group-names "$group" --query "AutoScalingGroups[0].$1"; }
cause() { format=text asg describe-scaling-activities --max-items 1 --query 'Activities[0].Cause'; }
probe_18a() {
  new_queue && policy "$(deny_others)" && sleep "${PROBE_SETTLE:-60}" # AWS applies a policy within a minute.
  put_hook queue && [[ $(receive 'Messages[0].Body') == *TEST_NOTIFICATION* ]] && echo yes || echo 'no: see the log'
}
probe_18b() {
  local error
  error=$(failed sqs send-message --queue-url "$url" --message-body '{}')
  [[ $error == *AccessDenied* ]] && echo yes || echo "no: ${error:-it was sent}"
}
probe_18c() {
  local rule_arn
  rule_arn=$(text events put-rule --name $hook --schedule-expression 'rate(1 minute)' --query RuleArn) || { echo "$unsupported"; return; }
  rule=$hook
  policy "{\"Effect\":\"Allow\",\"Principal\":{\"Service\":\"events.amazonaws.com\"},\"Action\":\"sqs:SendMessage\",\"Resource\":\"$arn\",\"Condition\":{\"ArnEquals\":{\"aws:SourceArn\":\"$rule_arn\"}}},$(deny_others)"
  call events put-targets --rule $hook --targets "Id=queue,Arn=$arn" >/dev/null
  wait_for 180 'Scheduled Event' receive 'Messages[].Body' && echo yes || echo no
}
probe_20() {
  local senders
  senders=$(receive 'Messages[].Attributes.SenderId')
  echo "${senders:-none}"
}

# cleanup removes what the probe has made, and lists what it could not remove.
cleanup() {
  trap - EXIT INT TERM
  local id
  [[ $(refresh_status) =~ ^(|None|Successful|Failed|Cancelled|Rollback(Failed|Successful))$ ]] || finish_refresh
  for id in $(held); do [ "$id" = None ] || complete "$id"; done
  asg resume-processes --scaling-processes ReplaceUnhealthy Launch >/dev/null
  remove_hook || leave "the lifecycle hook $hook of group $group"
  if [ -n "$rule" ]; then
    call events remove-targets --rule "$rule" --ids queue >/dev/null
    call events delete-rule --name "$rule" >/dev/null || leave "the EventBridge rule $rule"
  fi
  [ -z "$url" ] || call sqs delete-queue --queue-url "$url" >/dev/null || leave "the queue $url"
  [ $left -gt 0 ] || echo 'cleaned up: nothing is left'
}
leave() { left=$((left + 1)); echo "left, remove it by hand: $1"; }
trap cleanup EXIT
trap 'exit 130' INT TERM

text autoscaling describe-auto-scaling-groups --auto-scaling-group-names "$group" --query 'AutoScalingGroups[0].AutoScalingGroupName' |
  grep -qxF "$group" || { echo "probe: no group $group" >&2; trap - EXIT; exit 1; }
new_queue || { echo "probe: cannot create a queue: see $log" >&2; exit 1; }
while IFS='|' read -r id question _ _; do
  [ -z "$only" ] || [[ ",$only," == *",$id,"* ]] || continue
  echo "== $id $question" | tee -a "$log"
  begin=$SECONDS
  "probe_$id" >"$out.answer" 2>>"$log" </dev/null
  answer=$(tr '\t\n' '  ' <"$out.answer" | sed 's/ *$//')
  rm -f "$out.answer"
  printf '   %s\n' "$answer"
  printf '%s\t%s\t%s\n' "$id" "$answer" $((SECONDS - begin)) >>"$out"
done < <(experiments)
echo "The results are in $out, and all calls in $log. Please send us both; they contain your account's ids."
