package observe

// LeadingBegan tells that this replica does the work from now on.
func (o *Observer) LeadingBegan() {
	o.metrics.leader.Set(1)
	o.log.Info().Msg("leading")
}

// LeadingEnded tells that this replica does the work no longer; reason is nil if the work ended by itself.
func (o *Observer) LeadingEnded(reason error) {
	o.metrics.leader.Set(0)
	o.log.Info().AnErr("reason", reason).Msg("no longer leading")
}

// LeaderSeen tells that another replica than before leads; holder is empty while none does.
func (o *Observer) LeaderSeen(holder string) {
	if holder == "" {
		o.log.Info().Msg("nobody leads")
		return
	}
	o.metrics.transitions.Inc()
	o.log.Info().Str("leader", holder).Msg("leader changed")
}
