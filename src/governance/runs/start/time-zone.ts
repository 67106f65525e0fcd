import { DomainError } from '../../errors.ts'

/** Returns the canonical name. Throws `validation_error` for text that names no time zone. */
export function validTimeZone(timeZone: string): string {
  try {
    return new Intl.DateTimeFormat('en', { timeZone }).resolvedOptions().timeZone
  } catch {
    const message = `\`${timeZone.slice(0, 100)}\` is no time zone: give an IANA name such as \`Europe/Berlin\``
    throw new DomainError('validation_error', message, [{ path: 'time_zone', message }])
  }
}
