package rules
import ("testing";"os";"path/filepath";"fmt";"strings"
"github.com/drainproof/drainproof/internal/audit/budget"
"github.com/drainproof/drainproof/internal/audit/manifest"
"github.com/drainproof/drainproof/internal/audit/model")
func TestZZ(t *testing.T){
 for _,d:=range []string{"microservices-demo","kube-prometheus","ingress-nginx/cloud.yaml","ingress-nginx/aws.yaml","kubernetes-examples"}{
  var objs []*manifest.Object
  root:="/work/shared/corpus/"+d
  filepath.Walk(root,func(p string,i os.FileInfo,e error)error{ if e!=nil||i.IsDir()||!strings.HasSuffix(p,"yaml"){return nil}
   b,_:=os.ReadFile(p); o,err:=manifest.Parse(p[len(root)-len(d):],b); if err!=nil{fmt.Println(err)}
   if d=="kubernetes-examples" { m:=model.Build(o,model.Options{}); for _,f:=range Check(m,37,budget.Floors{}){ if mine(f.Rule){fmt.Println(d,f.Rule,f.Severity,f.File,f.Object.Kind,f.Object.Name,f.Path,"\n   ",f.Message)}} }
   objs=append(objs,o...); return nil})
  if d=="kubernetes-examples" {continue}
  m:=model.Build(objs,model.Options{})
  for _,f:=range Check(m,37,budget.Floors{}){ if mine(f.Rule){fmt.Println(d,f.Rule,f.Severity,f.Object.Kind,f.Object.Name,f.Path,"\n   ",f.Message)}}
 }
}
func mine(r string) bool { return strings.HasPrefix(r,"DP1")||strings.HasPrefix(r,"DP3")||strings.HasPrefix(r,"DP84")}
