import { useEffect, useState } from 'preact/hooks'

/** An island: copies the text of the element with this id. Browsers copy only on pages with TLS, or of this machine. */
export function Copy({ from, isPlain = false }: { readonly from: string; readonly isPlain?: boolean }) {
  const [canCopy, setCanCopy] = useState(false)
  const [words, setWords] = useState('Copy')
  useEffect(() => setCanCopy(navigator.clipboard !== undefined), [])
  const copy = (): void => {
    const found = document.getElementById(from)
    const text = found instanceof HTMLTextAreaElement ? found.value : (found?.textContent ?? '')
    navigator.clipboard.writeText(text).then(
      () => setWords('Copied'),
      () => setWords('Select the text and copy it yourself'),
    )
  }
  return (
    <button
      type="button"
      class={isPlain ? undefined : 'primary'}
      hidden={!canCopy}
      onClick={copy}
      aria-live="polite"
    >
      {words}
    </button>
  )
}
