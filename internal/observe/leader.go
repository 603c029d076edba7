package observe

// LeadershipStarted records that this replica is now the leader.
func (o *Observer) LeadershipStarted() {
	o.metrics.leader.Set(1)
	o.log.Info().Msg("started leading")
}

// LeadershipEnded records that this replica is no longer the leader; reason is nil if its work ended by
// itself.
func (o *Observer) LeadershipEnded(reason error) {
	o.metrics.leader.Set(0)
	o.log.Info().AnErr("reason", reason).Msg("stopped leading")
}

// LeaderChanged records the new leader; holder is empty if there is none.
func (o *Observer) LeaderChanged(holder string) {
	if holder == "" {
		o.log.Info().Msg("no leader")
		return
	}
	o.metrics.transitions.Inc()
	o.log.Info().Str("leader", holder).Msg("leader changed")
}
