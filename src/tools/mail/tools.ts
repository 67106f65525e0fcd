import { z } from 'zod'
import { byName, defineTool } from '../kit/tool.ts'

/** `to`, `cc` and `bcc` together. */
export const maxMailRecipients = 100

const recipients = z.union([
  z.string().min(1).max(32_000),
  z.array(z.string().min(1).max(1000)).min(1).max(maxMailRecipients),
])

export const tools = byName(
  /** SMTP does not recognise a repeated message: `unsafe`. Its point of no return is the final dot of DATA. */
  defineTool({
    name: 'mail_send',
    description: 'Sends an email. `me` as a recipient means the person who runs the workflow.',
    sideEffect: 'egress',
    outputLabels: [],
    params: z.strictObject({
      to: recipients.describe(
        '`me`, an address, `Name <address>`, several separated by comma or semicolon, or a list.',
      ),
      // The longest line in RFC 5322, section 2.1.1.
      subject: z.string().max(998),
      text: z.string().max(1_000_000).describe('The message as plain text.'),
      html: z.string().max(2_000_000).optional().describe('The same message as HTML.'),
      cc: recipients.optional().describe('Copies; written like `to`.'),
      bcc: recipients.optional().describe('Copies the other recipients do not see; written like `to`.'),
    }),
    people: ['to', 'cc', 'bcc'],
    freeTexts: ['subject', 'text', 'html'],
    output: z.strictObject({
      message_id: z.string().describe('The Message-ID, or the id that the connected service gives the mail.'),
      accepted: z.array(z.string()).describe('The address of every recipient.'),
    }),
    categories: ['external_comm'],
    risk: 'high',
    constraints: {
      allowed_domains: { to: 'recipients', cc: 'recipients', bcc: 'recipients' },
      max_message_length: { text: 'message', html: 'message' },
      read_only: {},
    },
    repeat: 'unsafe',
    reversible: 'no',
    preview: ({ to, cc, bcc, subject, text, html }) => ({
      title: `Send a mail to ${[to].flat().join(', ')}`,
      fields: { to, cc, bcc, subject, text, html },
    }),
    connection: 'installation',
    // Resend remembers an idempotency key for 24 hours.
    ownService: { integration: 'mail', knowsKeySeconds: 23 * 3_600 },
    timeoutSeconds: 180,
  }),
)
