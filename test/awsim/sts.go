package awsim

import "context"

// stsService is the Security Token Service. Each access key is that of a role of the same name.
func stsService(s *Server) *service {
	return queryService("sts", "https://sts.amazonaws.com/doc/2011-06-15/", map[string]actionFunc{
		"GetCallerIdentity": func(_ context.Context, in input) (any, error) {
			return struct{ Arn, UserId, Account string }{ //nolint:revive // The names of the API.
				"arn:aws:sts::" + s.opts.Account + ":assumed-role/" + in.Key + "/session", "AROATEST:session", s.opts.Account,
			}, nil
		},
	})
}
