// Command pack packs a chart as `helm package` does, with Helm's own library. All files have the
// time SOURCE_DATE_EPOCH, in seconds, so that the same chart yields the same bytes.
//
//	SOURCE_DATE_EPOCH=0 go run ./pack --version 0.1.0 --out DIRECTORY ../tenon
package main

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"time"

	"helm.sh/helm/v4/pkg/chart/v2/loader"
	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
)

func main() {
	version := flag.String("version", "", "version that the chart must have")
	out := flag.String("out", ".", "directory of the package")
	flag.Parse()
	if flag.NArg() != 1 || *version == "" {
		fmt.Fprintln(os.Stderr, "usage: pack --version VERSION [--out DIRECTORY] CHART")
		os.Exit(1)
	}
	if err := pack(flag.Arg(0), *version, *out); err != nil {
		fmt.Fprintln(os.Stderr, "pack:", err)
		os.Exit(1)
	}
}

// pack writes the package of the chart in a folder. The images have the version of the chart as
// their tag, so another version would install images that do not exist.
func pack(folder, version, out string) error {
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w; set it to the time of the commit in seconds", err)
	}
	chart, err := loader.LoadDir(folder)
	if err != nil {
		return err
	}
	if meta := chart.Metadata; meta.Version != version || meta.AppVersion != version {
		return fmt.Errorf("%s/Chart.yaml: version is %s and appVersion is %s; set both to %s",
			folder, meta.Version, meta.AppVersion, version)
	}
	chart.StampModTimes(time.Unix(seconds, 0))
	_, err = chartutil.Save(chart, out)
	return err
}
