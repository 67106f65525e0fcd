import { list } from '../types.ts'

/** Cmdlets, aliases, classes, methods and Windows programs that send data out. */
export const senders: ReadonlySet<string> = new Set(
  list(`
    invoke-webrequest iwr invoke-restmethod irm invoke-rest start-bitstransfer send-mailmessage new-pssession
    enter-pssession connect-pssession test-netconnection tnc resolve-dnsname publish-module publish-script
    publish-psresource send-tailscalefile new-psdrive net.webclient system.net.webclient webclient net.http.httpclient
    system.net.http.httpclient httpclient net.sockets.tcpclient system.net.sockets.tcpclient tcpclient udpclient
    net.webrequest system.net.webrequest webrequest httpwebrequest smtpclient ftpwebrequest clientwebsocket
    downloadstring downloadfile downloaddata uploadstring uploadfile uploaddata uploadvalues openread openwrite
    system.net.dns net.dns gethostaddresses gethostentry gethostbyname new-cimsession invoke-cimmethod
    getasync postasync putasync sendasync getstringasync getresponse msxml2.xmlhttp winhttp.winhttprequest.5.1
    microsoft.xmlhttp internetexplorer.application bitsadmin certreq finger plink winscp psftp azcopy`),
)

/** Aliases whose name is not that of a Unix program that does the same. */
export const aliases: ReadonlyMap<string, string> = new Map(
  list(`
  %=foreach-object foreach=foreach-object ?=where-object where=where-object select=select-object measure=measure-object
  group=group-object gc=get-content ac=add-content gci=get-childitem dir=get-childitem gi=get-item
  ni=new-item ri=remove-item si=set-item cpi=copy-item copy=copy-item mi=move-item move=move-item rni=rename-item
  ren=rename-item del=remove-item erase=remove-item rd=remove-item md=new-item gp=get-itemproperty sp=set-itemproperty
  sl=set-location chdir=set-location gl=get-location iex=invoke-expression ii=invoke-item saps=start-process
  start=start-process icm=invoke-command sajb=start-job ipmo=import-module sal=set-alias nal=new-alias gm=get-member
  gcm=get-command gal=get-alias gv=get-variable sv=set-variable ft=format-table fl=format-list fw=format-wide
  oh=out-host sls=select-string gps=get-process spps=stop-process gsv=get-service gcim=get-ciminstance
  gwmi=get-wmiobject iwmi=invoke-wmimethod ihy=invoke-history r=invoke-history sleep=start-sleep cls=clear-host
  clear=clear-host tee=tee-object sort=sort-object compare=compare-object ipcsv=import-csv epcsv=export-csv
  rv=remove-variable clc=clear-content ogv=out-gridview cvpa=convert-path rvpa=resolve-path pushd=push-location
  popd=pop-location dir=get-childitem type=get-content rmdir=remove-item cp=copy-item write=write-output
  help=get-help h=get-history`).map((pair) => pair.split('=') as [string, string]),
)

const verbs = `
  get set new remove add clear copy move rename join split resolve test select sort group measure compare where
  foreach tee format out write read convert convertto convertfrom import export show wait start stop restart suspend
  resume push pop find install uninstall update save register unregister enable disable compress expand unblock
  protect unprotect debug trace receive limit checkpoint`
const nouns = `
  item childitem content itemproperty itempropertyvalue location path object string csv json xml clixml html date
  random guid member unique variable hash filehash acl alias command help history host culture uiculture credential
  process service eventlog event winevent timezone module packageprovider package psrepository psresource
  packagesource installedmodule installedscript installedpsresource ciminstance psdrive error output warning verbose
  debug information progress table list wide custom default null file gridview archive securestring markdown
  transcript sleep job strictmode psdebug clipboard`

const quietVerbs = new Set(list(verbs))
const quietNouns = new Set(list(nouns))
/** Cmdlets that only work on this machine, and run nothing but the blocks that stand in the command. */
export const isQuiet = (verb: string, noun: string): boolean => quietVerbs.has(verb) && quietNouns.has(noun)

/** Other names with a dash are programs: `apt-get`. */
export const approvedVerb =
  /^(add|approve|assert|backup|block|build|checkpoint|clear|close|compare|complete|compress|confirm|connect|convert|convertfrom|convertto|copy|debug|deny|deploy|disable|disconnect|dismount|edit|enable|enter|exit|expand|export|find|format|foreach|get|grant|group|hide|import|initialize|install|invoke|join|limit|lock|measure|merge|mount|move|new|open|optimize|out|ping|pop|protect|publish|push|read|receive|redo|register|remove|rename|repair|request|reset|resize|resolve|restart|restore|resume|revoke|save|search|select|send|set|show|skip|sort|split|start|step|stop|submit|suspend|switch|sync|tee|test|trace|unblock|undo|uninstall|unlock|unprotect|unpublish|unregister|update|use|wait|watch|where|write)$/

/** A cmdlet of an unknown module with such a verb only reads. */
export const readingVerb =
  /^(get|find|test|measure|select|show|format|convertto|convertfrom|compare|resolve|join|split)$/

/** Types of .NET whose members compute, or work with files and this machine. */
const quietTypes = new Set(
  list(`
    environment io.path io.file io.directory io.fileinfo io.directoryinfo io.compression.zipfile io.streamreader
    io.streamwriter io.memorystream io.fileattributes guid datetime datetimeoffset timespan timezoneinfo math string int
    int32 int64 long double decimal single float bool boolean byte char uint32 uint64 convert bitconverter regex
    text.regularexpressions.regex text.encoding text.utf8encoding text.stringbuilder array collections.arraylist
    collections.hashtable collections.generic.list collections.generic.dictionary collections.generic.hashset hashtable
    ordered pscustomobject psobject object void switch xml xmldocument version uri console diagnostics.stopwatch
    diagnostics.fileversioninfo globalization.cultureinfo cultureinfo security.cryptography.sha256
    security.cryptography.sha512 security.cryptography.sha1 security.cryptography.md5 security.principal.windowsidentity
    security.principal.windowsprincipal security.principal.windowsbuiltinrole windows.forms.screen drawing.image
    drawing.bitmap runtime.interopservices.runtimeinformation runtime.interopservices.osplatform gc
    datetimekind dayofweek stringcomparison stringsplitoptions random consolecolor web.httputility net.webutility
    nullable enum validateset parameter cmdletbinding outputtype alias securestring pscredential
    management.automation.pscredential management.automation.semanticversion semver mailaddress ipaddress net.ipaddress
    linq.enumerable exception io.ioexception math.round numerics.biginteger bigint range io.searchoption`),
)

export const isQuietType = (name: string): boolean =>
  quietTypes.has(name.toLowerCase().replace(/^system\./, ''))

/** Methods that run a program or code: `.Invoke()`, `.InvokeScript()`, `Process.Start()`, `.ShellExecute()`. */
export const runningMember =
  /^(invoke\w*|addscript|addcommand|begininvoke|start|shellexecute|exec|run|createinstance|createtype|newscriptblock|createnestedpipeline|getmethod|getnewclosure|compile\w*|loadlibrary|load|loadfile|loadfrom|create)$/i
