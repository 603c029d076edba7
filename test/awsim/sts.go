package awsim

import "context"

type callerIdentity struct {
	Arn     string
	UserID  string `xml:"UserId"`
	Account string
}

func stsActions(s *Server) map[string]actionFunc {
	return map[string]actionFunc{
		"GetCallerIdentity": func(context.Context, input) (any, error) {
			return callerIdentity{
				Arn:     "arn:aws:iam::" + s.opts.Account + ":user/awsim",
				UserID:  "AIDAAWSIM",
				Account: s.opts.Account,
			}, nil
		},
	}
}
