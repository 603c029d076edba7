package cloud_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/node-drainer/node-drainer/internal/cloud"
)

func TestInstanceID(t *testing.T) {
	for _, tt := range []struct {
		name, disabled, answer string
		silent                 bool
		want                   string
	}{
		{name: "an instance", answer: "i-0123456789abcdef0\n", want: "i-0123456789abcdef0"},
		{name: "another web server", answer: "<html>welcome</html>"},
		{name: "no answer", silent: true},
		{name: "the metadata service is disabled", disabled: "true", answer: "i-0123456789abcdef0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch {
				case tt.silent:
					<-r.Context().Done()
				case r.Method == http.MethodPut:
					w.Header().Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "60")
					_, _ = io.WriteString(w, "token")
				default:
					_, _ = io.WriteString(w, tt.answer)
				}
			}))
			defer service.Close()
			t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", service.URL)
			t.Setenv("AWS_EC2_METADATA_DISABLED", tt.disabled)
			limit := 30 * time.Second
			if tt.silent {
				limit = 500 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			got, err := cloud.InstanceID(ctx, aws.Config{})
			if got != tt.want || (err == nil) != (tt.want != "") {
				t.Errorf("InstanceID() = %q, %v, want %q", got, err, tt.want)
			}
		})
	}
}
