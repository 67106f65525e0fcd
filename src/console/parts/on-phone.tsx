import { encode } from 'uqr'

/* A page of the console is opened on a phone by a QR code. */

/** Folded. `path` is that of the page, below the address of the service. */
export function OnPhone({ base, path, title }: { base: string; path: string; title: string }) {
  const url = new URL(path, base)
  const reach = reachOf(url.hostname)
  return (
    <details class="on-phone">
      <summary>{title}</summary>
      <div class="stack">
        {reach === 'here' ? (
          <NotReached host={url.host} />
        ) : (
          <>
            <QrCode text={url.href} label={`QR code with the address ${url.href}`} />
            <p class="quiet small">
              It has only the address <code>{url.href}</code>: you sign in on the phone.
              {reach === 'near' ? ' The phone must be in the same network as this service.' : null}
            </p>
          </>
        )}
      </div>
    </details>
  )
}

const NotReached = ({ host }: { host: string }) => (
  <p class="small">
    A phone cannot open <code>{host}</code>: only the machine of the service reaches this address. Whoever
    runs the service sets <code>HOST=0.0.0.0</code>, and <code>PUBLIC_URL</code> to an address that the phone
    reaches, such as <code>http://192.168.1.20:8080</code>, and starts it again. Then a QR code stands here.
  </p>
)

const here = /^(localhost|.*\.localhost|127\.[\d.]+|0\.0\.0\.0|\[::1?\])$/
const near = /^([^.:]+|.*\.local|(10|192\.168|169\.254|172\.(1[6-9]|2\d|3[01]))\.[\d.]+|\[f[cde].*)$/

/** From where an address is reached: this machine alone, its network, or further. `hostname` is that of a `URL`. */
const reachOf = (hostname: string): 'here' | 'near' | 'far' =>
  here.test(hostname) ? 'here' : near.test(hostname) ? 'near' : 'far'

/** Modules of the empty border that readers of QR codes need. */
const quiet = 4

/** Dark on light in every theme, because many readers accept no other colours. */
export function QrCode({ text, label }: { text: string; label: string }) {
  const { data, size } = encode(text, { border: 0 })
  const path = data.flatMap((row, y) =>
    row.flatMap((isDark, x) => (isDark ? [`M${x + quiet} ${y + quiet}h1v1h-1z`] : [])),
  )
  const side = size + 2 * quiet
  return (
    <svg class="qr" viewBox={`0 0 ${side} ${side}`} role="img" aria-label={label}>
      <rect width={side} height={side} fill="#ffffff" />
      <path d={path.join('')} fill="#000000" />
    </svg>
  )
}
