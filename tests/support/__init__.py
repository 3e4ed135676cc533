"""What the tests share: peers over every transport, the published schemas, data."""
