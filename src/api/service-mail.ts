/** A plain text mail from the service itself, to one recipient. */
export interface ServiceMail {
  readonly to: string
  readonly subject: string
  readonly text: string
}

/** Sends a mail of the service itself. Resolves once the mail server has accepted it. */
export type SendMail = (mail: ServiceMail) => Promise<void>
