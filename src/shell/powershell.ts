import { scanForSenders } from './scan.ts'
import type { ShellReading } from './types.ts'

/** Cmdlets, aliases, classes and Windows programs that send data out. */
const senders: ReadonlySet<string> = new Set(
  `invoke-webrequest iwr invoke-restmethod irm invoke-rest start-bitstransfer send-mailmessage new-pssession
  enter-pssession invoke-command icm connect-pssession test-netconnection tnc resolve-dnsname publish-module publish-script
  publish-psresource send-tailscalefile new-psdrive net.webclient system.net.webclient webclient net.http.httpclient
  system.net.http.httpclient httpclient net.sockets.tcpclient system.net.sockets.tcpclient tcpclient udpclient
  net.webrequest system.net.webrequest webrequest httpwebrequest smtpclient ftpwebrequest clientwebsocket
  downloadstring downloadfile downloaddata uploadstring uploadfile uploaddata uploadvalues openread openwrite
  system.net.dns net.dns gethostaddresses gethostentry gethostbyname new-cimsession invoke-cimmethod
  getasync postasync putasync sendasync getstringasync getresponse msxml2.xmlhttp winhttp.winhttprequest.5.1
  microsoft.xmlhttp internetexplorer.application bitsadmin certreq finger plink winscp psftp azcopy`.split(
    /\s+/,
  ),
)

/**
 * The language is not parsed: a command is egress if it contains a sender, a path to another machine, or a `certutil`
 * that fetches, and a script otherwise. Case does not count, nor do back-ticks, carets and quotes in a name.
 */
export function classifyPowerShell(command: string): Omit<ShellReading, 'scripts'> {
  const bare = command.slice(0, 1_000_000).replaceAll(/[`^'"]|\0/g, '')
  for (const word of bare.toLowerCase().split(/[^a-z0-9_.-]+/)) {
    const parts = [word, ...(word.includes('.') ? word.split('.') : [])]
    const found = parts.find((part) => senders.has(part) || senders.has(part.replace(/\.exe$/, '')))
    if (found !== undefined) return { kind: 'egress', because: `\`${found}\` sends data out` }
  }
  const sender = scanForSenders(bare.replaceAll(/\.exe\b/gi, ''))
  if (sender !== undefined) return { kind: 'egress', because: `\`${sender}\` sends data out` }
  // A path such as `\\host\share\file` names a file on another machine.
  if (/(^|[\s=(,;])\\\\[\w.${}()-]+\\[\w${]/.test(bare))
    return { kind: 'egress', because: 'a path leads to another machine' }
  // `certutil -urlcache` fetches an address.
  if (bare.split(/[\n\r\u2028\u2029]/).some(asksCertutil))
    return { kind: 'egress', because: '`certutil` sends data out' }
  return { kind: 'script', because: 'PowerShell runs a script' }
}

/** Two searches one after the other: one expression for both takes quadratic time in a line that repeats `certutil`. */
function asksCertutil(line: string): boolean {
  const at = line.search(/\bcertutil\b/i)
  return at >= 0 && /-(?:urlcache|verifyctl)\b/i.test(line.slice(at))
}
