import { h, type ComponentChild } from 'preact'
import { encode } from 'uqr'

/** Width of the empty border around the code, in modules. Programs that read QR codes need this border. */
const quiet = 4

/**
 * Shows a text as a QR code. The code is dark on light in every theme, because many QR readers accept no other colours.
 */
export function QrCode({ text, label }: { readonly text: string; readonly label: string }): ComponentChild {
  const { data, size } = encode(text, { border: 0 })
  const path = data.flatMap((row, y) =>
    row.flatMap((isDark, x) => (isDark ? [`M${x + quiet} ${y + quiet}h1v1h-1z`] : [])),
  )
  const side = size + 2 * quiet
  return h('svg', { class: 'qr', viewBox: `0 0 ${side} ${side}`, role: 'img', 'aria-label': label }, [
    h('rect', { width: side, height: side, fill: '#ffffff' }),
    h('path', { d: path.join(''), fill: '#000000' }),
  ])
}
