/* Fetches the page of a host: getaddrinfo, then a blocking connect to one address after the other. Built with musl as a static
 * program; no C library of the host is in it. */
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int main(int count, char **words)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *list, *each;
	static const char request[] = "GET / HTTP/1.0\r\n\r\n";
	char bytes[4096];
	ssize_t length;
	int s = -1;

	if (count < 2 || getaddrinfo(words[1], "80", &hints, &list) != 0)
		return 1;
	for (each = list; each != NULL; each = each->ai_next) {
		s = socket(each->ai_family, each->ai_socktype, each->ai_protocol);
		if (s >= 0 && connect(s, each->ai_addr, each->ai_addrlen) == 0)
			break;
		close(s);
	}
	if (each == NULL || write(s, request, strlen(request)) < 0)
		return 2;
	while ((length = read(s, bytes, sizeof bytes)) > 0)
		if (write(1, bytes, length) != length)
			return 3;
	return length < 0 ? 4 : 0;
}
