package observe

// LeadershipStarted tells that this replica does the work from now on.
func (o *Observer) LeadershipStarted() {
	o.metrics.leader.Set(1)
	o.log.Info().Msg("started leading")
}

// LeadershipEnded tells that this replica does the work no longer; reason is nil if the work ended by itself.
func (o *Observer) LeadershipEnded(reason error) {
	o.metrics.leader.Set(0)
	o.log.Info().AnErr("reason", reason).Msg("stopped leading")
}

// LeaderChanged tells that another replica than before leads; holder is empty while none does.
func (o *Observer) LeaderChanged(holder string) {
	if holder == "" {
		o.log.Info().Msg("no leader")
		return
	}
	o.metrics.transitions.Inc()
	o.log.Info().Str("leader", holder).Msg("leader changed")
}
