import '../../calls/call.ts'
